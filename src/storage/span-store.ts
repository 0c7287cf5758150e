import type { SpanDecision, SpanNode, SpanStore } from '../spans/span-store.ts'
import type { JsonObject } from '../tools/json.ts'
import type { Queryable } from './database.ts'

export function spanStore(database: Queryable): SpanStore {
  return {
    async tree(organizationId, runId, below = []) {
      const runs = [runId, ...below]
      const rows = await database.kysely
        .selectFrom('agent.spans as s')
        .leftJoin('agent.span_payloads as p', (join) =>
          join.onRef('p.span_id', '=', 's.id').on('p.organization_id', '=', organizationId),
        )
        .selectAll('s')
        .select(['p.input', 'p.output'])
        .where('s.organization_id', '=', organizationId)
        .where('s.run_id', 'in', runs)
        .orderBy('s.started_at')
        .orderBy('s.id')
        .execute()
      const decisions = await decisionsOf(database, organizationId, runs)
      return rows.map((row): SpanNode => ({
        id: row.id,
        runId: row.run_id,
        parentId: row.parent_id,
        kind: row.kind,
        name: row.name,
        status: row.status,
        code: row.code,
        startedAt: row.started_at,
        endedAt: row.ended_at,
        attributes: row.attributes as JsonObject,
        input: row.input,
        output: row.output,
        decision: decisions.get(row.id) ?? null,
      }))
    },
  }
}

async function decisionsOf(
  database: Queryable,
  organizationId: string,
  runs: readonly string[],
): Promise<ReadonlyMap<string, SpanDecision>> {
  const rows = await database.kysely
    .selectFrom('agent.policy_decisions')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('run_id', 'in', runs)
    .orderBy('decided_at')
    .execute()
  return new Map(
    rows.map((row) => [
      row.span_id,
      {
        stage: row.stage,
        outcome: row.outcome,
        rule: row.rule_name,
        message: row.message,
        facts: row.facts as JsonObject,
        shadow: row.shadow,
        approvalId: row.approval_id,
      },
    ]),
  )
}
