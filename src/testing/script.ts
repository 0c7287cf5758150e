import { isJsonObject, type JsonValue } from '../tools/json.ts'
import { modelToolName } from '../tools/models.ts'

/** What a scripted model says next, as a function of the conversation alone: it plays on the same after a restart. */
export type Script = (conversation: ScriptedConversation) => ScriptedTurn

export interface ScriptedTurn {
  readonly text?: string
  readonly calls?: readonly ScriptedCall[]
  /** Instead of `tool-calls` or `stop`: how a provider ends a turn that is not complete. */
  readonly finish?: 'length' | 'content-filter' | 'other'
  /** The provider fails: before it streams anything, or after the text if there is one. */
  readonly fail?: Error
  /** Attempts at this turn that fail before one succeeds. Every attempt fails unless given. */
  readonly failTimes?: number
}

export interface ScriptedCall {
  /** Platform name (`email.send`) or model-facing name. A name without a dot is written as it stands. */
  readonly tool: string
  readonly args?: JsonValue
  /** Written instead of `args`, for arguments that are no JSON. */
  readonly rawArgs?: string
  /** Instead of an id that is unique in the conversation, for providers that repeat theirs. */
  readonly id?: string
}

export interface ScriptedConversation {
  readonly instructions: string
  /** The latest message of the user. */
  readonly input: string
  /** The model's turns since that message. */
  readonly turns: readonly PastTurn[]
  /** Model-facing names on offer. */
  readonly tools: readonly string[]
  /** The calls of one tool since that message, by either of its names. */
  readonly callsOf: (tool: string) => readonly PastCall[]
}

export interface PastTurn {
  readonly text: string
  readonly calls: readonly PastCall[]
}

export interface PastCall {
  readonly id: string
  /** Model-facing name. */
  readonly tool: string
  readonly args: JsonValue
  /** The text the model was given, or null while there is none. */
  readonly answer: string | null
  /**
   * The answer as JSON, `{ ok, data }` or `{ ok, error }`, with untrusted data taken out of its envelope; the text itself
   * where it is neither.
   */
  readonly result: JsonValue
}

/** A message of any wire format, reduced to what a script may know. */
export type TranscriptEntry =
  | { readonly role: 'user'; readonly text: string }
  | { readonly role: 'model'; readonly text: string; readonly calls: readonly Omit<PastCall, 'answer' | 'result'>[] }
  | { readonly role: 'answer'; readonly callId: string; readonly text: string }

export interface Transcript {
  readonly instructions: string
  readonly tools: readonly string[]
  readonly entries: readonly TranscriptEntry[]
}

/** One turn, ready for a wire format. */
export interface PlayedTurn {
  readonly text: string
  readonly calls: readonly { readonly id: string; readonly tool: string; readonly argsText: string }[]
  readonly finish: 'stop' | 'tool-calls' | 'length' | 'content-filter' | 'other'
  readonly fail: Error | null
  readonly inputTokens: number
  readonly outputTokens: number
}

/** A fixed list of turns, one for each model turn since the user spoke. */
export function scriptedTurns(turns: readonly ScriptedTurn[]): Script {
  return ({ turns: past }) => {
    const turn = turns[past.length]
    if (turn === undefined) throw new Error(`the script has ${turns.length} turns and the model was asked for another`)
    return turn
  }
}

/** Plays a script against conversations; only the count of failed attempts is kept between two calls. */
export function scriptPlayer(script: Script): (transcript: Transcript) => PlayedTurn {
  const attempts = new Map<string, number>()
  return (transcript) => {
    const spoken = transcript.entries.filter((entry) => entry.role === 'model').length
    const turn = script(conversationOf(transcript))
    const calls = (turn.calls ?? []).map((call, index) => ({
      id: call.id ?? `call_${spoken + 1}_${index + 1}`,
      tool: call.tool.includes('.') ? modelToolName(call.tool) : call.tool,
      argsText: call.rawArgs ?? JSON.stringify(call.args === undefined ? {} : call.args),
    }))
    const text = turn.text ?? ''
    return {
      text,
      calls,
      finish: turn.finish ?? (calls.length > 0 ? 'tool-calls' : 'stop'),
      fail: turn.fail !== undefined && failsAgain(attempts, transcript, turn.failTimes) ? turn.fail : null,
      inputTokens: tokens(transcript),
      outputTokens: tokens([text, calls]),
    }
  }
}

/** Cuts between code points, so that no delta holds half an emoji. */
export function chunksOf(text: string, size: number): string[] {
  const points = Array.from(text)
  return Array.from({ length: Math.ceil(points.length / size) }, (_, index) =>
    points.slice(index * size, (index + 1) * size).join(''),
  )
}

function failsAgain(attempts: Map<string, number>, transcript: Transcript, failTimes = Infinity): boolean {
  const key = JSON.stringify(transcript)
  const failed = attempts.get(key) ?? 0
  attempts.set(key, failed + 1)
  return failed < failTimes
}

function conversationOf({ instructions, tools, entries }: Transcript): ScriptedConversation {
  const asked = entries.findLastIndex((entry) => entry.role === 'user')
  const request = entries[asked]
  const since = entries.slice(asked + 1)
  const answers = new Map(since.flatMap((entry) => (entry.role === 'answer' ? [[entry.callId, entry.text]] : [])))
  const turns = since.flatMap((entry): PastTurn[] =>
    entry.role === 'model' ? [{ text: entry.text, calls: entry.calls.map((call) => answered(call, answers)) }] : [],
  )
  return {
    instructions,
    tools,
    turns,
    input: request?.role === 'user' ? request.text : '',
    callsOf: (tool) => turns.flatMap((turn) => turn.calls).filter((call) => call.tool === modelToolName(tool)),
  }
}

function answered(call: Omit<PastCall, 'answer' | 'result'>, answers: ReadonlyMap<string, string>): PastCall {
  const answer = answers.get(call.id) ?? null
  return { ...call, answer, result: answer === null ? null : parsed(answer) }
}

/** A head on a line of its own, and a body between two brackets that carry a random token. */
const ENVELOPE = /^(.*)\n⟦untrusted:\w+ [^⟧]*⟧\n([^⟧]*)\n⟦\/untrusted:\w+⟧$/

/** The random token is left out, so that a script sees the same result again after a restart. */
function parsed(answer: string): JsonValue {
  const [, head, body] = ENVELOPE.exec(answer) ?? []
  if (head === undefined || body === undefined) return json(answer)
  const result = json(head)
  if (!isJsonObject(result)) return answer
  const { error } = result
  return isJsonObject(error) ? { ...result, error: { ...error, message: json(body) } } : { ...result, data: json(body) }
}

function json(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return text
  }
}

/** Four characters a token: near enough for ceilings and charts, and the same on every machine. */
function tokens(value: unknown): number {
  return Math.ceil(JSON.stringify(value).length / 4)
}
