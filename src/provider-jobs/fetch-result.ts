import { providerFor, type JobProvider } from './adapter.ts'
import { resultOf, type DeliveryStore } from './delivery.ts'
import { eventIdOf, type FetchRequest, type JobEvents } from './events.ts'
import { storedResult } from './result.ts'
import { isTerminal } from './transition.ts'

export interface FetchDependencies {
  readonly providers: ReadonlyMap<string, JobProvider>
  readonly store: Pick<DeliveryStore, 'find' | 'keepResult' | 'advance'>
  readonly events: JobEvents
}

/** Milliseconds to ask for a result. The vendor has said that it is there, so nothing is waited for. */
const FETCH_MS = 60_000

/**
 * Gets the result of a job that a vendor said has ended, stores it, and only then lets the job end. Safe to repeat: a
 * result is read and not made, and a job that has ended is only told of again.
 */
export async function fetchJobResult(
  { providers, store, events }: FetchDependencies,
  request: FetchRequest,
): Promise<void> {
  const { jobId, provider: name, deliveryId } = request
  const job = await store.find(name, jobId)
  if (job === null) return
  let { state } = job
  let wake: readonly string[] = []
  if (!isTerminal(state)) {
    const provider = providerFor(providers, name)
    if (provider.fetchResult === undefined || job.providerJobId === null)
      throw new Error(`${name}: the result of job ${jobId} cannot be asked for`)
    const { result, cost } = await provider.fetchResult(job, AbortSignal.timeout(FETCH_MS))
    const stored = storedResult(jobId, result)
    if (stored.kind === 'apart') await store.keepResult(job, stored)
    const change = { providerJobId: job.providerJobId, state: 'completed', cost, result: resultOf(stored) } as const
    const advanced = await store.advance(job, change)
    if (advanced.kind === 'gone') return
    if (advanced.kind === 'mismatch') throw new Error(`${name}: job ${jobId} changed its vendor id`)
    state = advanced.job.state
    wake = advanced.wake
  }
  if (isTerminal(state)) await events.completed({ jobId, provider: name, state }, eventIdOf(deliveryId))
  for (const runId of wake) await events.wake(runId)
}
