import type { SessionState } from '../../src/runs/session.ts'
import type { Database } from '../../src/storage/database.ts'
import { unnamed } from '../../src/storage/statement.ts'
import type { JsonObject } from '../../src/tools/json.ts'
import type { ParkedExample, StateExample } from './examples.ts'
import { ADA, approveAll, converse, startOwnLoop, startPlatform, type OwnLoop } from './platform.ts'
import { readRows } from './rows.ts'

export interface Recording {
  readonly parked: ParkedExample
  readonly ownLoop: StateExample
}

/** Parks a run of each kind on an empty, migrated database, and then goes on with the one whose states are wanted. */
export async function record(database: Database): Promise<Recording> {
  const platform = await startPlatform(database, [])
  const managed = await platform.runtime.runs.start({
    organizationId: platform.organizationId,
    definition: 'reminder',
    input: 'Remind Jo.',
    startedBy: ADA,
    source: 'api',
  })
  await platform.engine.settle()
  const own = await startOwnLoop(database, [])
  const run = await own.session.start('Note it for Jo.')
  await converse(run)
  await platform.core.ledger.flush()
  await own.bailiff.core.ledger.flush()
  const rows = await readRows(database)
  return {
    parked: { managedRun: managed.id, ownLoopRun: run.runId, ...rows },
    ownLoop: await ownLoopStates(database, own, run.runId),
  }
}

/** The state of a run that waits, and of one whose results are in place. */
async function ownLoopStates(database: Database, own: OwnLoop, runId: string): Promise<StateExample> {
  const paused = await stateOf(database, runId)
  await approveAll(own.bailiff.core, own.bailiff.organizationId)
  await own.session.continue(runId)
  return { paused, answered: await stateOf(database, runId) }
}

async function stateOf(database: Database, runId: string): Promise<SessionState> {
  const { rows } = await database.query<{ framework: string; version: number; state: JsonObject }>(
    unnamed('SELECT framework, state_version AS version, state FROM agent.run_sessions WHERE run_id = $1::uuid'),
    [runId],
  )
  const [row] = rows
  if (row === undefined) throw new Error(`run ${runId} has no saved session`)
  return { framework: row.framework, version: row.version, state: row.state['session'] ?? null }
}
