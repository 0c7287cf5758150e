import { createHash } from 'node:crypto'
import type { ErrorReporter } from '../tools/invoker.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import { UnreadableDelivery, type JobProvider, type ProviderJobUpdate, type WebhookHeaders } from './adapter.ts'
import type { DeliveryLimiter } from './delivery-limiter.ts'
import type { DropCounters, DropReason } from './drops.ts'
import { eventIdOf, type JobEvents } from './events.ts'
import type { JobState, JobRecord } from './job.ts'
import { JOB_ID } from './job-id.ts'
import { storedResult, type StoredResult } from './result.ts'
import { isTerminal } from './transition.ts'

/** A request as it came. */
export interface Delivery {
  /** From the path, both, and not believed. */
  readonly provider: string
  readonly jobId: string
  /** Of the client. */
  readonly address: string
  readonly headers: WebhookHeaders
  /** The bytes as they were signed; null when there are more than {@link MAX_DELIVERY_BYTES}. Read only when it is asked for. */
  readonly body: () => Promise<Uint8Array | null>
}

export const MAX_DELIVERY_BYTES = 2 * 1024 * 1024

export type DeliveryOutcome =
  | { readonly kind: 'unknown_provider' }
  | { readonly kind: 'rate_limited'; readonly retryAfterS: number }
  | { readonly kind: 'too_large' }
  | { readonly kind: 'bad_signature' }
  /** Taken, or dropped for a reason that sending it again would not change: the vendor did its part. */
  | { readonly kind: 'acknowledged'; readonly dropped: DropReason | null }

/** What a delivery changes of its job. */
export interface JobChange {
  readonly providerJobId: string
  readonly state: JobState
  readonly cost: JsonObject | null
  /** As it stands in the job. */
  readonly result: JsonValue | null
}

export type Advanced =
  /** The job as it is now, whoever brought it there; and the runs that have a reason to go on. */
  | { readonly kind: 'kept'; readonly job: JobRecord; readonly wake: readonly string[] }
  /** The vendor's id is another one, or another job's. */
  | { readonly kind: 'mismatch' }
  | { readonly kind: 'gone' }

export interface DeliveryClaim {
  readonly organizationId: string
  readonly provider: string
  readonly deliveryId: string
  /** Hex sha-256 of the raw body. */
  readonly bodyHash: string
}

/** What callbacks do to the record. Every verb is one statement. */
export interface DeliveryStore {
  /** By id alone: the row says whose the job is, and nothing else does. */
  find(provider: string, jobId: string): Promise<JobRecord | null>
  keepResult(job: JobRecord, result: Extract<StoredResult, { kind: 'apart' }>): Promise<void>
  /** Binds an absent vendor id and moves the job if it may move; state, cost and result are written together or not at all. */
  advance(job: JobRecord, change: JobChange): Promise<Advanced>
  /** `open` when it is this caller's to finish, also after one that did not. */
  claim(claim: DeliveryClaim): Promise<'open' | 'finished' | 'conflict'>
  finish(claim: DeliveryClaim): Promise<void>
}

export interface DeliveryDependencies {
  readonly providers: ReadonlyMap<string, JobProvider>
  readonly limiter: DeliveryLimiter
  readonly store: DeliveryStore
  readonly events: JobEvents
  readonly drops: DropCounters
  readonly reporter: ErrorReporter
}

/**
 * Takes one callback. The order is what makes it safe: nothing unverified reaches the database, so that the address of a
 * job is no secret and an answer tells nobody which jobs there are; the row says whose the job is before anything is
 * claimed for them; and what is stored is stored before anybody is woken.
 */
export async function receiveDelivery(deps: DeliveryDependencies, delivery: Delivery): Promise<DeliveryOutcome> {
  const provider = deps.providers.get(delivery.provider)
  if (provider === undefined) return { kind: 'unknown_provider' }
  const drop = (reason: DropReason): void => deps.drops.count(delivery.provider, reason)
  const retryAfterS = deps.limiter.take(delivery.address)
  if (retryAfterS !== null) {
    drop('rate_limited')
    return { kind: 'rate_limited', retryAfterS }
  }
  const body = await delivery.body()
  if (body === null) {
    drop('too_large')
    return { kind: 'too_large' }
  }
  if (!provider.webhook.verify(body, delivery.headers)) {
    deps.limiter.failed(delivery.address)
    drop('bad_signature')
    return { kind: 'bad_signature' }
  }
  const reason = await takeVerified(deps, { provider, jobId: delivery.jobId, headers: delivery.headers, body })
  if (reason !== null) drop(reason)
  return { kind: 'acknowledged', dropped: reason }
}

interface Verified {
  readonly provider: JobProvider
  readonly jobId: string
  readonly headers: WebhookHeaders
  readonly body: Uint8Array
}

/** Null when the delivery was taken. */
async function takeVerified(deps: DeliveryDependencies, verified: Verified): Promise<DropReason | null> {
  const { store } = deps
  const { provider, jobId } = verified
  const said = understood(deps, verified)
  if (said === null) return 'unreadable'
  const job = JOB_ID.test(jobId) ? await store.find(provider.webhook.provider, jobId) : null
  if (job === null) return 'unknown_job'
  const foreign = foreignTo(job, said.update)
  if (foreign !== null) return foreign
  const advanced = await advance(deps, job, { provider, said })
  if (advanced.kind === 'gone') return 'unknown_job'
  if (advanced.kind === 'mismatch') return 'job_mismatch'
  // Progress takes no claim: it would make the delivery of the end a conflict, and whoever is woken by it finds nothing.
  if (!isTerminal(said.update.state)) return 'not_terminal'
  return announce(deps, advanced, { provider, said, body: verified.body })
}

interface Said {
  readonly deliveryId: string
  readonly update: ProviderJobUpdate
  readonly stored: StoredResult | null
}

/** What a delivery can be named with: it becomes part of a key. */
const DELIVERY_ID = /^[\x21-\x7e]{1,200}$/

function understood({ reporter }: DeliveryDependencies, { provider, jobId, headers, body }: Verified): Said | null {
  try {
    const payload = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body)) as JsonValue
    const deliveryId = provider.webhook.deliveryId(payload, headers)
    if (!DELIVERY_ID.test(deliveryId)) throw new UnreadableDelivery('the id of the delivery is no id')
    const update = provider.webhook.read(payload)
    return { deliveryId, update, stored: update.result === null ? null : storedResult(jobId, update.result) }
  } catch (error) {
    // Text of an error here can hold what the vendor sent about people.
    const kind = error instanceof UnreadableDelivery ? error.message : error instanceof Error ? error.name : 'Error'
    const fault = new Error(`${provider.webhook.provider}: a signed callback cannot be read (${kind})`)
    reporter.report(fault, { provider: provider.webhook.provider })
    return null
  }
}

/** The signature proves the sender and says nothing about the address: the body has to speak of this very job. */
function foreignTo(job: JobRecord, update: ProviderJobUpdate): 'name_mismatch' | 'job_mismatch' | null {
  if (job.providerJobId !== null) return job.providerJobId === update.providerJobId ? null : 'job_mismatch'
  return update.namedJobId === job.id ? null : 'name_mismatch'
}

interface Understood {
  readonly provider: JobProvider
  readonly said: Said
}

async function advance(deps: DeliveryDependencies, job: JobRecord, { provider, said }: Understood): Promise<Advanced> {
  const { update, stored } = said
  const { providerJobId, cost } = update
  // A vendor that says it is done and not what it found is asked first: an end without a result would wake for nothing.
  if (mustFetch(provider, update))
    return deps.store.advance(job, { providerJobId, state: 'running', cost: null, result: null })
  if (stored?.kind === 'apart') await deps.store.keepResult(job, stored)
  return deps.store.advance(job, { providerJobId, state: update.state, cost, result: resultOf(stored) })
}

function mustFetch(provider: JobProvider, update: ProviderJobUpdate): boolean {
  return provider.fetchResult !== undefined && update.state === 'completed' && update.result === null
}

/** As a job holds it. */
export function resultOf(stored: StoredResult | null): JsonValue | null {
  if (stored === null) return null
  return stored.kind === 'inline' ? stored.value : { ...stored.ref }
}

/** The claim is a guard against work done twice and not the truth: one that was taken and not finished is gone through again. */
async function announce(
  { store, events }: DeliveryDependencies,
  { job, wake }: Extract<Advanced, { kind: 'kept' }>,
  { provider, said, body }: Understood & { readonly body: Uint8Array },
): Promise<DropReason | null> {
  const name = provider.webhook.provider
  const bodyHash = createHash('sha256').update(body).digest('hex')
  const claim = { organizationId: job.organizationId, provider: name, deliveryId: said.deliveryId, bodyHash }
  const claimed = await store.claim(claim)
  if (claimed === 'conflict') return 'delivery_conflict'
  if (claimed === 'finished') return 'duplicate'
  const { deliveryId } = said
  if (isTerminal(job.state))
    await events.completed({ jobId: job.id, provider: name, state: job.state }, eventIdOf(deliveryId))
  else await events.fetch({ jobId: job.id, provider: name, deliveryId }, `fetch:${deliveryId}`)
  await store.finish(claim)
  for (const runId of wake) await events.wake(runId)
  return null
}
