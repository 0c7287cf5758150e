import type { JsonObject, JsonValue } from '../tools/json.ts'
import { isJsonObject, own } from '../tools/json.ts'
import type { EndState } from './job.ts'

export const SETTLE_JOB = 'provider_job.settle'
export const FETCH_JOB = 'provider_job.fetch'

/** Starts the settlement on an engine of events. A change of the shape below is a new version, beside this one. */
export const COMPLETED_EVENT = 'platform/agentic.provider_job.completed.v1'

/** Sent when a job has ended, and only then: whoever waits is woken once and reads the row. */
export interface CompletedEvent {
  /** Ours. The vendor's own id has another name in every table and event. */
  readonly jobId: string
  readonly provider: string
  readonly state: EndState
}

/** A vendor said that it is done and did not say what it found. */
export interface FetchRequest {
  readonly jobId: string
  readonly provider: string
  readonly deliveryId: string
}

/** Where work about jobs is handed to. Each is safe to repeat. */
export interface JobEvents {
  /** @param id two with one id are one event */
  completed(event: CompletedEvent, id: string): Promise<void>
  fetch(request: FetchRequest, id: string): Promise<void>
  /** Tells a run that it has a reason to go on; that it has one is already on its row. */
  wake(runId: string): Promise<void>
}

export function completedPayload({ jobId, provider, state }: CompletedEvent): JsonObject {
  return { job_id: jobId, provider, state, terminal: true }
}

export function fetchPayload({ jobId, provider, deliveryId }: FetchRequest): JsonObject {
  return { job_id: jobId, provider, delivery_id: deliveryId }
}

/** @throws Error for a payload that is none of the two above */
export function jobNamedBy(payload: JsonValue): { readonly provider: string; readonly jobId: string } {
  return { provider: textOf(payload, 'provider'), jobId: textOf(payload, 'job_id') }
}

/** @throws Error */
export function fetchRequestOf(payload: JsonValue): FetchRequest {
  return { ...jobNamedBy(payload), deliveryId: textOf(payload, 'delivery_id') }
}

function textOf(payload: JsonValue, field: string): string {
  const value = isJsonObject(payload) ? own(payload, field) : undefined
  if (typeof value !== 'string') throw new Error(`work about a provider job has no ${field}`)
  return value
}

/** Of the event of a delivery, so that a delivery that is taken twice is one event. */
export function eventIdOf(deliveryId: string): string {
  return `event:${deliveryId}`
}
