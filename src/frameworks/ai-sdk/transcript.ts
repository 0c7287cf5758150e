import type { AssistantModelMessage, ModelMessage, ToolModelMessage } from 'ai'
import type { CallResult, Proposal, SessionInput } from '../../runs/session.ts'
import { modelPayload } from '../../tools/render.ts'
import type { ConversationState } from './state.ts'

type ToolPart = ToolModelMessage['content'][number]
type ToolResultPart = Extract<ToolPart, { type: 'tool-result' }>

/** One finished model turn on its way into the conversation. */
export interface TurnRecord {
  /** Null when the model said nothing at all. */
  readonly message: AssistantModelMessage | null
  readonly text: string
  /** What the reads of the turn answered, by call id. */
  readonly answers: ReadonlyMap<string, string>
  /** The calls of the turn that are not reads. */
  readonly proposals: readonly Proposal[]
}

/**
 * The conversation after an input. Pure: a refused input leaves the conversation as it was.
 *
 * @throws Error when the input does not fit the phase, or the results are not exactly those of the open calls
 */
export function withInput(state: ConversationState, input: SessionInput): ConversationState {
  switch (input.kind) {
    case 'start':
      if (state.phase !== 'new') throw new Error('the session has already been started; go on with `continue`')
      return { ...state, phase: 'running', messages: [{ role: 'user', content: input.text }] }
    case 'continue':
      if (state.phase === 'new') throw new Error('there is nothing to go on with: the session was never started')
      return state
    case 'results':
      if (state.phase !== 'paused') throw new Error(`the session is ${state.phase} and waits for no results`)
      return withResults(state, input.results)
    default:
      throw new Error(`unknown session input ${JSON.stringify(input satisfies never)}`)
  }
}

/** The conversation after a model turn whose reads have been answered. */
export function withTurn(state: ConversationState, turn: TurnRecord): ConversationState {
  const messages: ModelMessage[] = [...state.messages]
  if (turn.message !== null) messages.push(turn.message)
  if (turn.answers.size > 0) messages.push(toolMessage(turn.message, turn.answers))
  const phase = turn.proposals.length > 0 ? 'paused' : turn.answers.size > 0 ? 'running' : 'finished'
  return { phase, messages, proposals: turn.proposals, text: turn.text }
}

/** Every call id the conversation has used. */
export function callIds(messages: readonly ModelMessage[]): string[] {
  return messages.flatMap((message) =>
    message.role === 'assistant' ? callParts(message).map((part) => part.toolCallId) : [],
  )
}

function withResults(state: ConversationState, results: readonly CallResult[]): ConversationState {
  const delivered = new Map(results.map((result) => [result.proposal.callId, result]))
  const open = new Set(state.proposals.map((proposal) => proposal.callId))
  const missing = [...open].filter((id) => !delivered.has(id))
  const unknown = [...delivered.keys()].filter((id) => !open.has(id))
  if (missing.length > 0)
    throw new Error(`the open call ${missing.join(', ')} has no result; deliver all of a pause at once`)
  if (unknown.length > 0) throw new Error(`a result names the call ${unknown.join(', ')}, which is not open`)
  if (results.length > delivered.size) throw new Error('a call has more than one result')

  const answered = state.messages.at(-1)
  const asked = state.messages.findLast((message) => message.role === 'assistant') ?? null
  const answers = new Map(answered?.role === 'tool' ? answered.content.flatMap(answerOf) : [])
  for (const part of callParts(asked)) {
    const result = delivered.get(part.toolCallId)
    if (result !== undefined) answers.set(part.toolCallId, modelPayload(result.result, part.toolName))
  }
  const before = answered?.role === 'tool' ? state.messages.slice(0, -1) : state.messages
  return { phase: 'running', messages: [...before, toolMessage(asked, answers)], proposals: [], text: state.text }
}

/** One message with the answers of a turn, in the order of its calls: providers refuse a history with a gap in it. */
function toolMessage(asked: AssistantModelMessage | null, answers: ReadonlyMap<string, string>): ToolModelMessage {
  const content = callParts(asked).flatMap(({ toolCallId, toolName }): ToolResultPart[] => {
    const value = answers.get(toolCallId)
    return value === undefined ? [] : [{ type: 'tool-result', toolCallId, toolName, output: { type: 'text', value } }]
  })
  return { role: 'tool', content }
}

function callParts(message: AssistantModelMessage | null) {
  if (message === null || typeof message.content === 'string') return []
  return message.content.filter((part) => part.type === 'tool-call')
}

function answerOf(part: ToolPart): [string, string][] {
  return part.type === 'tool-result' && part.output.type === 'text' ? [[part.toolCallId, part.output.value]] : []
}
