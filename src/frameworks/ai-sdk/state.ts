import { modelMessageSchema, type ModelMessage } from 'ai'
import { z } from 'zod'
import type { Proposal, SessionState } from '../../runs/session.ts'
import { UnreadableSession } from '../../runs/unreadable-session.ts'
import type { JsonValue } from '../../tools/json.ts'

export const FRAMEWORK_NAME = 'ai-sdk'

export const STATE_VERSION = 1

/**
 * `new` has no message yet; in `running` the messages end where the model is to speak; in `paused` they end with calls
 * that have no result; in `finished` they end with the model's last words.
 */
export type Phase = 'new' | 'running' | 'paused' | 'finished'

/** One conversation between two model turns. Replaced as a whole, so that a turn that fails leaves the one before it. */
export interface ConversationState {
  readonly phase: Phase
  readonly messages: readonly ModelMessage[]
  /** The open calls of a pause, in the order the model made them. */
  readonly proposals: readonly Proposal[]
  /** What the model said in its latest turn. */
  readonly text: string
}

export const NEW_CONVERSATION: ConversationState = { phase: 'new', messages: [], proposals: [], text: '' }

/** Turns the state of one version into the state of the next. */
export type Upcaster = (state: JsonValue) => JsonValue

/** Keyed by the version a step reads. Version 1 is the first, so there is none yet. */
const UPCASTERS: ReadonlyMap<number, Upcaster> = new Map()

const jsonValue: z.ZodType<JsonValue> = z.json()

const storedState = z.object({
  phase: z.enum(['new', 'running', 'paused', 'finished']),
  messages: z.array(modelMessageSchema),
  proposals: z.array(z.object({ callId: z.string(), toolName: z.string(), args: jsonValue })),
  text: z.string(),
})

/** Plain JSON, detached from the conversation that goes on. */
export function saveState(state: ConversationState): SessionState {
  return { framework: FRAMEWORK_NAME, version: STATE_VERSION, state: plainJson<unknown>(state) as JsonValue }
}

/** @throws UnreadableSession */
export function restoreState(saved: SessionState | null): ConversationState {
  if (saved === null) return NEW_CONVERSATION
  const current = currentState(saved, { framework: FRAMEWORK_NAME, version: STATE_VERSION, upcasters: UPCASTERS })
  const parsed = storedState.safeParse(current)
  if (!parsed.success) throw new UnreadableSession('the saved session cannot be read', { cause: parsed.error })
  return plainJson<unknown>(current) as ConversationState
}

/** What one build reads of one framework. */
export interface ReadableStates {
  readonly framework: string
  /** The version it writes, and the newest it reads. */
  readonly version: number
  readonly upcasters: ReadonlyMap<number, Upcaster>
}

/**
 * Walks a saved state up to the version of this build, one version a step. A newer state is refused: what it says may
 * be more than an older build can keep.
 *
 * @throws UnreadableSession
 */
export function currentState(saved: SessionState, { framework, version, upcasters }: ReadableStates): JsonValue {
  if (saved.framework !== framework)
    throw new UnreadableSession(`the session was saved by the framework ${saved.framework}, not by ${framework}`)
  if (saved.version > version)
    throw new UnreadableSession(
      `the session was saved as version ${saved.version} by a newer build; this one reads up to version ${version}`,
    )
  let { state } = saved
  for (let step = saved.version; step < version; step += 1) {
    const upcaster = upcasters.get(step)
    if (upcaster === undefined)
      throw new UnreadableSession(`nothing reads a session saved as version ${saved.version} any more`)
    state = upcaster(state)
  }
  return state
}

/** What JSON text keeps of a value: `undefined` members go, nothing is shared with the original. */
export function plainJson<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T
}
