import type { NewRun, RunRow } from '../runs/run-store.ts'
import type { Queryable } from './database.ts'
import { runOf } from './run-row.ts'

/** A run with its control row and its span: the root of a tree, or a child under the node that started it. */
export async function insertRun(tx: Queryable, run: NewRun): Promise<RunRow> {
  const rootRunId = run.parent?.rootRunId ?? run.id
  const row = await tx.kysely
    .insertInto('agent.runs')
    .values({
      id: run.id,
      organization_id: run.organizationId,
      kind: run.kind ?? 'agent',
      parent_run_id: run.parent?.runId ?? null,
      parent_step: run.parent?.step ?? null,
      root_run_id: rootRunId,
      retry_of: run.retryOf ?? null,
      definition_id: run.definitionId,
      definition: run.definition,
      status: 'queued',
      source: run.source,
      lane: run.lane,
      input: JSON.stringify(run.input),
      snapshot: JSON.stringify(run.snapshot),
      deadline: run.deadline,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  await tx.kysely
    .insertInto('agent.run_control')
    .values({ run_id: run.id, organization_id: run.organizationId })
    .execute()
  await tx.kysely
    .insertInto('agent.spans')
    .values({
      id: run.id,
      organization_id: run.organizationId,
      run_id: run.id,
      root_run_id: rootRunId,
      parent_id: run.parent?.spanId ?? null,
      kind: 'run',
      name: run.definition,
      status: 'running',
      started_at: row.created_at,
    })
    .execute()
  return runOf(row)
}
