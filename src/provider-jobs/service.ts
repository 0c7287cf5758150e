import type { DurableJob } from '../runs/engine.ts'
import type { ErrorReporter } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'
import { providersByName, type JobProvider } from './adapter.ts'
import { receiveDelivery, type Delivery, type DeliveryOutcome } from './delivery.ts'
import { deliveryLimiter, type DeliveryLimits } from './delivery-limiter.ts'
import { dropCounters, type DropCounters } from './drops.ts'
import { completedPayload, FETCH_JOB, fetchPayload, SETTLE_JOB, type JobEvents } from './events.ts'
import type { JobListing } from './listing.ts'
import { settleJob, type Settled } from './settle.ts'
import type { ProviderJobStore } from './store.ts'
import { providerJobWork } from './work.ts'

/** What jobs need of an engine, which is there once managed runs are. */
export interface JobEngine {
  enqueue(name: string, payload: JsonValue, options: { readonly id: string }): Promise<void>
  wake(runId: string): Promise<void>
}

/** Jobs at vendors, as a whole: their callbacks, their cost, and what people may see of them. */
export interface ProviderJobs {
  readonly listing: JobListing
  readonly drops: DropCounters
  /** What the engine does about jobs, by name. */
  readonly work: Readonly<Record<string, DurableJob>>
  receive(delivery: Delivery): Promise<DeliveryOutcome>
  /** Settles one now, for an operator: what was given up is not tried again by itself. */
  settle(job: { readonly provider: string; readonly jobId: string }): Promise<Settled>
  /** Without an engine, a callback does its work before it is answered, and one that fails is sent again. */
  attach(engine: JobEngine): void
}

export interface ProviderJobsDependencies {
  readonly providers: readonly JobProvider[]
  readonly store: ProviderJobStore
  readonly reporter: ErrorReporter
  readonly now: () => Date
  readonly limits?: DeliveryLimits | undefined
  /** Wraps what the engine is asked for: to count, to crash on purpose. */
  readonly instrument?: ((events: JobEvents) => JobEvents) | undefined
}

/** @throws Error for providers that no path can tell apart */
export function providerJobs(dependencies: ProviderJobsDependencies): ProviderJobs {
  const { store, reporter, now, limits, instrument } = dependencies
  const providers = providersByName(dependencies.providers)
  const drops = dropCounters(now)
  const limiter = deliveryLimiter(() => now().getTime(), limits)
  let engine: JobEngine = {
    enqueue: (name, payload) => work[name]?.run(payload, 1) ?? Promise.reject(new Error(`there is no job ${name}`)),
    wake: () => Promise.resolve(),
  }
  const plain = eventsOf(() => engine)
  const events = instrument?.(plain) ?? plain
  const work = providerJobWork({ providers, store, events, reporter })
  return {
    listing: store,
    drops,
    work,
    receive: (delivery) => receiveDelivery({ providers, limiter, store, events, drops, reporter }, delivery),
    settle: (job) => settleJob({ providers, store }, job),
    attach(given) {
      engine = given
    },
  }
}

function eventsOf(engine: () => JobEngine): JobEvents {
  return {
    async completed(event, id) {
      await engine().enqueue(SETTLE_JOB, completedPayload(event), { id })
    },
    async fetch(request, id) {
      await engine().enqueue(FETCH_JOB, fetchPayload(request), { id })
    },
    async wake(runId) {
      await engine().wake(runId)
    },
  }
}
