import { ShuttingDown, type AdvanceOutcome } from './executor.ts'

export interface AdvanceBudget {
  /**
   * Milliseconds after which no turn and no call begins any more; 10,000 when absent. What is under way then finishes, so
   * that no paid turn is thrown away: leave room for one below the limit of whatever calls.
   */
  readonly ms?: number
  /** Aborted, it means the same as time that is over. */
  readonly signal?: AbortSignal
  /** Segments at most; 100 when absent. */
  readonly runs?: number
}

export interface Advanced {
  /** Segments that ran. */
  readonly advanced: number
  /** Runs that are due now and that this call left, counted to 100: zero says that there is nothing to do for now. */
  readonly remaining: number
}

interface AdvanceParts {
  /** Ids of runs that are due now. */
  readonly due: (limit: number) => Promise<readonly string[]>
  readonly expireDue: () => Promise<number>
  readonly executor: { tryAdvance(runId: string, leave?: AbortSignal): Promise<AdvanceOutcome | null> }
}

const BUDGET_MS = 10_000
const BUDGET_RUNS = 100
const COUNTED = 100

/** Runs what is due, one segment after the other. Several callers share the work: each run is taken by one of them. */
export async function advanceDue(
  { due, expireDue, executor }: AdvanceParts,
  { ms = BUDGET_MS, runs = BUDGET_RUNS, signal }: AdvanceBudget = {},
): Promise<Advanced> {
  const over = new AbortController()
  const end = (): void => over.abort(new ShuttingDown())
  const timer = setTimeout(end, ms)
  signal?.addEventListener('abort', end)
  if (signal?.aborted === true) end()
  // A run that is due again at once has had its turn: this call must end.
  const seen = new Set<string>()
  const nextDue = async (): Promise<string | undefined> => (await due(COUNTED)).find((runId) => !seen.has(runId))
  let advanced = 0
  try {
    await expireDue()
    while (advanced < runs && !over.signal.aborted) {
      const runId = await nextDue()
      if (runId === undefined) break
      seen.add(runId)
      const outcome = await executor.tryAdvance(runId, over.signal)
      if (outcome !== null) advanced += 1
      // Something woke it while it worked.
      if (outcome?.kind === 'again') seen.delete(runId)
    }
    return { advanced, remaining: (await due(COUNTED)).length }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', end)
  }
}
