import { isJsonObject, type JsonObject, type JsonValue } from '../../tools/json.ts'

/* Versioned names of events. A shape that changes gets a new version; both are served while old events may be on their way. */

/** A run has a reason to go on. */
export const RUN_WAKE = 'platform/agentic.run.wake.v1'
/** The same, at a time. A name of its own: it arrives now, and would end a wait for a wake-up. */
export const RUN_WAKE_LATER = 'platform/agentic.run.wake_later.v1'
/** A vendor's job has ended: `data.data` holds `job_id` (the platform's), `provider`, `state` and `terminal`. Its id is `event:<delivery id of the provider>`. */
export const PROVIDER_JOB_COMPLETED = 'platform/agentic.provider_job.completed.v1'

/** The event that starts a job which names none. */
export function jobEvent(name: string): string {
  return `platform/agentic.job.${name}.v1`
}

export interface WakeData {
  readonly runId: string
  /** With the lane, what Inngest counts segments by. */
  readonly organizationId: string
  readonly lane: string
  /** ISO 8601; of a wake-up for later. */
  readonly at?: string
}

export interface EngineEvent {
  readonly name: string
  /** Two events with one id within a day start one function run. */
  readonly id?: string
  readonly data: { readonly data: JsonValue }
}

export function wakeEvent(data: WakeData): EngineEvent {
  return { name: data.at === undefined ? RUN_WAKE : RUN_WAKE_LATER, data: { data: { ...data } } }
}

/** What an event says; null where it is not in our envelope. */
export function dataOf(event: unknown): JsonValue | null {
  const outer = isJsonObject(event) ? event['data'] : undefined
  return isJsonObject(outer) ? (outer['data'] ?? null) : null
}

export function wakeOf(event: unknown): Pick<WakeData, 'runId' | 'at'> | null {
  const data = dataOf(event)
  if (!isJsonObject(data) || typeof data['runId'] !== 'string') return null
  const at = atOf(data)
  return { runId: data['runId'], ...(at === null ? {} : { at }) }
}

/** The time before which nothing is to be done, where a job or wake-up carries one. */
export function atOf(holder: JsonObject): string | null {
  const at = holder['at']
  return typeof at === 'string' && !Number.isNaN(Date.parse(at)) ? at : null
}
