import type { Core } from '../core.ts'
import type { RunRow } from '../runs/run-store.ts'
import { runJson, type RunJson } from './json.ts'

const COUNTED = 200

/** A run with the totals that stand in other tables. */
export async function readRun(core: Core, run: RunRow): Promise<RunJson> {
  const costCents = await core.stores.runs.spentCents(run.organizationId, run.rootRunId)
  const pending = await core.approvals.list(run.organizationId, { runId: run.id, state: 'pending', limit: COUNTED })
  return runJson(run, { costCents, pendingApprovals: pending.items.length })
}
