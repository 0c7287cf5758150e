import type { Actor, RunCeilings, RunSource } from '../tools/invocation.ts'
import { isErased } from '../tools/erased.ts'
import type { RunManager } from './manager.ts'
import type { RunRow } from './run-store.ts'

export interface RetryFacts {
  /** The run that was started in its place. */
  readonly retriedBy: string | null
  /** Writes and sends of the failed run that took effect, or may have. */
  readonly effects: number
}

export interface RetryStore {
  retryFacts(organizationId: string, runId: string): Promise<RetryFacts>
}

export interface RetryRequest {
  readonly organizationId: string
  readonly runId: string
  readonly by: Actor
  readonly roles: readonly string[]
  readonly source: RunSource
  /** The journal of a run answers for that run alone: what the failed one did, another one may do once more. */
  readonly effectsMayRepeat: boolean
}

export type RetryOutcome =
  | { readonly kind: 'started'; readonly run: RunRow }
  | { readonly kind: 'missing' }
  | { readonly kind: 'not_failed'; readonly run: RunRow }
  /** A step of another run started it, and goes on or fails by its own rules. */
  | { readonly kind: 'child'; readonly rootRunId: string }
  /** A program of somebody's own drives it. */
  | { readonly kind: 'library' }
  | { readonly kind: 'erased' }
  | { readonly kind: 'retried'; readonly runId: string }
  | { readonly kind: 'effects'; readonly effects: number }

export interface RetryDependencies {
  readonly runs: Pick<RunManager, 'get' | 'start'>
  readonly store: RetryStore
  /** Of the definition as it is published now; null when there is none. */
  readonly ceilings: (organizationId: string, definition: string) => Promise<Partial<RunCeilings> | null>
}

/**
 * Starts another run of a failed run's definition and input, on whoever's authority asks. The failed run stays as it is.
 * The definition is the one that is published now, since mending it may be the point; ceilings are never higher than before.
 *
 * @throws NotFoundError, ValidationError as a start does
 */
export async function retryRun(deps: RetryDependencies, request: RetryRequest): Promise<RetryOutcome> {
  const { organizationId, runId } = request
  const failed = await deps.runs.get(organizationId, runId)
  if (failed === null) return { kind: 'missing' }
  if (failed.status !== 'failed') return { kind: 'not_failed', run: failed }
  if (failed.parentRunId !== null) return { kind: 'child', rootRunId: failed.rootRunId }
  if (failed.source === 'library') return { kind: 'library' }
  if (isErased(failed.input)) return { kind: 'erased' }
  const { retriedBy, effects } = await deps.store.retryFacts(organizationId, runId)
  if (retriedBy !== null) return { kind: 'retried', runId: retriedBy }
  if (effects > 0 && !request.effectsMayRepeat) return { kind: 'effects', effects }
  const now = await deps.ceilings(organizationId, failed.definition)
  const run = await deps.runs.start({
    organizationId,
    definition: failed.definition,
    input: failed.input,
    startedBy: request.by,
    roles: request.roles,
    source: request.source,
    lane: failed.lane,
    ceilings: lower(failed.snapshot.ceilings, now ?? {}),
    retryOf: failed.id,
  })
  return { kind: 'started', run }
}

function lower(before: RunCeilings, now: Partial<RunCeilings>): Partial<RunCeilings> {
  const least = (name: keyof RunCeilings): number | null => {
    const limits = [before[name], now[name]].filter((limit) => typeof limit === 'number')
    return limits.length === 0 ? null : Math.min(...limits)
  }
  return {
    maxTurns: least('maxTurns') ?? before.maxTurns,
    maxToolCalls: least('maxToolCalls') ?? before.maxToolCalls,
    maxDurationS: least('maxDurationS') ?? before.maxDurationS,
    maxCostCents: least('maxCostCents'),
  }
}
