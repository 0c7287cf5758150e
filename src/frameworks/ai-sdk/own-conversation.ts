import { modelMessageSchema, type ModelMessage, type ToolModelMessage } from 'ai'
import { z } from 'zod'
import type { CallResult, Proposal, SessionState } from '../../runs/session.ts'
import { UnreadableSession } from '../../runs/unreadable-session.ts'
import type { JsonValue } from '../../tools/json.ts'
import { modelToolName } from '../../tools/models.ts'
import { modelPayload } from '../../tools/render.ts'
import type { DeclaredTools } from './declare-tools.ts'
import { currentState, plainJson, type Upcaster } from './state.ts'

/** The conversation of a loop that somebody else owns, between two calls of the model. */
export interface ConversationState {
  readonly messages: readonly ModelMessage[]
  /** Calls the model made that have no result. */
  readonly proposals: readonly Proposal[]
}

export const OWN_LOOP = 'ai-sdk-own-loop'

export const OWN_LOOP_STATE_VERSION = 1

/** Keyed by the version a step reads. Version 1 is the first, so there is none yet. */
const UPCASTERS: ReadonlyMap<number, Upcaster> = new Map()

const stored = z.object({
  messages: z.array(modelMessageSchema),
  proposals: z.array(z.object({ callId: z.string(), toolName: z.string(), args: z.json() })),
})

export function saveState(state: ConversationState): SessionState {
  return { framework: OWN_LOOP, version: OWN_LOOP_STATE_VERSION, state: plainJson<unknown>(state) as JsonValue }
}

/** @throws UnreadableSession */
export function restoreState(saved: SessionState | null): ConversationState {
  if (saved === null) throw new UnreadableSession('the run has no saved conversation')
  const readable = { framework: OWN_LOOP, version: OWN_LOOP_STATE_VERSION, upcasters: UPCASTERS }
  const current = currentState(saved, readable)
  const parsed = stored.safeParse(current)
  if (!parsed.success) throw new UnreadableSession('the saved conversation cannot be read', { cause: parsed.error })
  return current as unknown as ConversationState
}

/** The calls of an answer that have no result: what the framework paused on. */
export function openCalls(messages: readonly ModelMessage[], declared: DeclaredTools): readonly Proposal[] {
  const answered = new Set(messages.flatMap((message) => (message.role === 'tool' ? resultIds(message) : [])))
  return messages.flatMap((message) => {
    if (message.role !== 'assistant' || typeof message.content === 'string') return []
    return message.content.flatMap((part): Proposal[] => {
      if (part.type !== 'tool-call' || part.providerExecuted === true || answered.has(part.toolCallId)) return []
      const args = plainJson<unknown>(part.input ?? null) as JsonValue
      return [{ callId: part.toolCallId, toolName: declared.contractOf(part.toolName)?.name ?? part.toolName, args }]
    })
  })
}

/** One tool message with a result for every open call, as a provider wants it. */
export function withAnswers(state: ConversationState, results: readonly CallResult[]): ConversationState {
  const content = results.map(({ proposal, result }) => ({
    type: 'tool-result' as const,
    toolCallId: proposal.callId,
    toolName: modelToolName(proposal.toolName),
    output: { type: 'text' as const, value: modelPayload(result, modelToolName(proposal.toolName)) },
  }))
  return { messages: [...state.messages, { role: 'tool', content }], proposals: [] }
}

function resultIds(message: ToolModelMessage): string[] {
  return message.content.flatMap((part) => (part.type === 'tool-result' ? [part.toolCallId] : []))
}
