import type { Approval } from '../approvals/approval-store.ts'
import type { Core } from '../core.ts'
import type { RunRow } from '../runs/run-store.ts'
import { runJson, spanJson, type Reader, type RunJson, type SpanJson } from './json.ts'

/** More than any run asks: a run makes at most a hundred calls unless its definition allows more. */
const MAX_APPROVALS = 1_000

/** A run with the totals that stand in other tables. */
export async function readRun(core: Core, run: RunRow): Promise<RunJson> {
  return withTotals(core, run, await approvalsOf(core, run))
}

export interface RunTree {
  readonly run: RunJson
  readonly spans: SpanJson[]
}

/** A run with everything that happened in it, and what became of the questions it asked. */
export async function readTree(core: Core, run: RunRow, reader: Reader): Promise<RunTree> {
  const approvals = await approvalsOf(core, run)
  const bySpan = new Map(approvals.map((approval) => [approval.spanId, approval]))
  // The span of the call that ran after the answer names the approval in its decision.
  const byId = new Map(approvals.map((approval) => [approval.id, approval]))
  const spans = await core.stores.spans.tree(run.organizationId, run.id)
  return {
    run: await withTotals(core, run, approvals),
    spans: spans.map((span) =>
      spanJson(span, bySpan.get(span.id) ?? byId.get(span.decision?.approvalId ?? '') ?? null, reader),
    ),
  }
}

async function withTotals(core: Core, run: RunRow, approvals: readonly Approval[]): Promise<RunJson> {
  const costCents = await core.stores.runs.spentCents(run.organizationId, run.rootRunId)
  return runJson(run, { costCents, pendingApprovals: approvals.filter(({ state }) => state === 'pending').length })
}

async function approvalsOf(core: Core, run: RunRow): Promise<readonly Approval[]> {
  return (await core.approvals.list(run.organizationId, { runId: run.id, limit: MAX_APPROVALS })).items
}
