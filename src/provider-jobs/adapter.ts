import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { UsageRecord } from '../tools/invocation.ts'
import type { JobState, JobRecord } from './job.ts'

/** By lower-case name; a header that was sent several times is joined with a comma, as HTTP says. */
export type WebhookHeaders = (name: string) => string | undefined

/** Everything that is trusted of a delivery, once its signature has passed. */
export interface ProviderJobUpdate {
  /** The vendor's own id. */
  readonly providerJobId: string
  /** The job of ours that the signed body names; null when it names none. What binds a vendor's id for the first time. */
  readonly namedJobId: string | null
  readonly state: JobState
  /** As the vendor reports it; null when it says nothing. */
  readonly cost: JsonObject | null
  /** What the vendor answered. Null while there is nothing, or where the delivery does not carry it. */
  readonly result: JsonValue | null
}

/**
 * How one provider's callbacks are read. It knows the signature and the vendor's words; it touches no run, no meter and
 * no span. One signing key for the whole platform: `verify` is called before anything is known about the tenant.
 */
export interface ProviderWebhookAdapter {
  /** As in the path of the callback. */
  readonly provider: string
  verify(rawBody: Uint8Array, headers: WebhookHeaders): boolean
  /**
   * Names a delivery, the same for each repetition.
   * @throws UnreadableDelivery
   */
  deliveryId(payload: JsonValue, headers: WebhookHeaders): string
  /** @throws UnreadableDelivery */
  read(payload: JsonValue): ProviderJobUpdate
}

/** Signed, and still not to be understood: the vendor has changed its format. */
export class UnreadableDelivery extends Error {
  override readonly name = 'UnreadableDelivery'
}

/** What a vendor answered when it was asked for the result of a job that has ended. */
export interface FetchedResult {
  readonly result: JsonValue
  readonly cost: JsonObject | null
}

/** Everything the platform needs of one provider of jobs. */
export interface JobProvider {
  readonly webhook: ProviderWebhookAdapter
  /** What an ended job cost. The vendor's own report where it gives one; what is not reported is not zero. */
  usageOf(job: JobRecord): UsageRecord
  /** Asks for the result of a completed job, where the callback does not carry it. */
  fetchResult?(job: JobRecord, signal: AbortSignal): Promise<FetchedResult>
}

const PROVIDER = /^[a-z][a-z0-9_-]{0,47}$/

/** By name. @throws Error for a name that is not one, or is taken */
export function providersByName(providers: readonly JobProvider[]): ReadonlyMap<string, JobProvider> {
  const found = new Map<string, JobProvider>()
  for (const provider of providers) {
    const { provider: name } = provider.webhook
    if (!PROVIDER.test(name)) throw new Error(`${JSON.stringify(name.slice(0, 48))} is no name of a job provider`)
    if (found.has(name)) throw new Error(`two job providers are named ${name}`)
    found.set(name, provider)
  }
  return found
}

/** @throws Error for one that this deployment does not have, or has no longer */
export function providerFor(providers: ReadonlyMap<string, JobProvider>, name: string): JobProvider {
  const provider = providers.get(name)
  if (provider === undefined) throw new Error(`this deployment has no provider of jobs named ${name}`)
  return provider
}
