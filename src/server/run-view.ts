import type { Approval } from '../approvals/approval-store.ts'
import type { Core } from '../core.ts'
import type { Page, RunRow } from '../runs/run-store.ts'
import { runJson, spanJson, type Reader, type RunJson, type SpanJson } from './json.ts'

/** Questions that are read at once. */
const PAGE = 1_000

/** A run with the totals that stand in other tables. */
export async function readRun(core: Core, run: RunRow): Promise<RunJson> {
  return withTotals(core, run, await approvalsOf(core, run, await below(core, run)))
}

export interface RunTree {
  readonly run: RunJson
  readonly spans: SpanJson[]
}

/** A run with everything that happened in it and below it, and what became of the questions that were asked. */
export async function readTree(core: Core, run: RunRow, reader: Reader): Promise<RunTree> {
  const runs = await below(core, run)
  const approvals = await approvalsOf(core, run, runs)
  const bySpan = new Map(approvals.map((approval) => [approval.spanId, approval]))
  // The span of the call that ran after the answer names the approval in its decision.
  const byId = new Map(approvals.map((approval) => [approval.id, approval]))
  const spans = await core.stores.spans.tree(run.organizationId, run.id, runs)
  return {
    run: await withTotals(core, run, approvals),
    spans: spans.map((span) =>
      spanJson(span, bySpan.get(span.id) ?? byId.get(span.decision?.approvalId ?? '') ?? null, reader),
    ),
  }
}

/** Only the steps of a workflow start runs. */
async function below(core: Core, run: RunRow): Promise<readonly string[]> {
  return run.kind === 'workflow' ? core.stores.children.below(run.organizationId, run.id) : []
}

async function withTotals(core: Core, run: RunRow, approvals: readonly Approval[]): Promise<RunJson> {
  const costCents = await core.stores.runs.spentCents(run.organizationId, run.rootRunId)
  return runJson(run, { costCents, pendingApprovals: approvals.filter(({ state }) => state === 'pending').length })
}

/** All of them: a call whose question was not read would be shown to whoever may not read it. */
async function approvalsOf(core: Core, run: RunRow, runs: readonly string[]): Promise<readonly Approval[]> {
  const found: Approval[] = []
  for (let cursor: string | null = null; ;) {
    const page: Page<Approval> = await core.approvals.list(run.organizationId, {
      runIds: [run.id, ...runs],
      limit: PAGE,
      cursor,
    })
    found.push(...page.items)
    if (page.nextCursor === null) return found
    cursor = page.nextCursor
  }
}
