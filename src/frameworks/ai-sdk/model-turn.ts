import {
  isStepCount,
  RetryError,
  streamText,
  type AssistantModelMessage,
  type LanguageModelUsage,
  type ModelMessage,
  type ToolSet,
} from 'ai'
import type { ModelUsage, SessionEvent } from '../../runs/session.ts'
import { isJsonObject, type JsonValue } from '../../tools/json.ts'
import { guardedCalls } from './guarded-calls.ts'
import type { LanguageModel, ModelIdentity } from './model-types.ts'
import { plainJson } from './state.ts'
import { callIds } from './transcript.ts'

export interface TurnRequest {
  readonly model: LanguageModel
  readonly identity: ModelIdentity
  readonly instructions: string
  readonly messages: readonly ModelMessage[]
  readonly tools: ToolSet
  /** The name a call keeps in the history; see `historyName`. */
  nameInHistory(written: string): string
  readonly signal: AbortSignal
  readonly maxRetries: number
  readonly readConcurrency: number
}

/** A call as the model made it. */
export interface ModelCall {
  /** Unique in the conversation. */
  readonly callId: string
  readonly name: string
  /** What the model wrote; a string when it is not JSON or when the turn was cut off, so that it fits no contract. */
  readonly args: JsonValue
}

export interface ModelTurn {
  readonly message: AssistantModelMessage | null
  readonly calls: readonly ModelCall[]
  readonly text: string
  readonly usage: ModelUsage
}

/** Finish reasons after which the last call may be half written, although its JSON happens to close. */
const CUT_OFF: ReadonlySet<string> = new Set(['length', 'content-filter'])

/** A provider that ended its stream so has given no answer. */
const FAILED: ReadonlySet<string> = new Set(['error', 'interrupted'])

/**
 * One call of the model, streamed: yields its text, returns the turn. The AI SDK runs the reads of a turn that ended
 * regularly; what it makes of the other calls (texts that list all tools, repaired arguments) is left aside.
 *
 * @throws whatever the provider threw, unwrapped from the retries around it
 */
export async function* streamTurn(request: TurnRequest): AsyncGenerator<SessionEvent, ModelTurn> {
  const result = streamText({
    model: guardedCalls(request.model, callIds(request.messages)),
    ...(request.instructions === '' ? {} : { instructions: request.instructions }),
    messages: [...request.messages],
    tools: request.tools,
    stopWhen: isStepCount(1),
    // Retries happen before anything was streamed, so no delta is shown twice.
    maxRetries: request.maxRetries,
    toolCallConcurrency: request.readConcurrency,
    abortSignal: request.signal,
    // The default prints provider errors, which may hold request bodies.
    onError: () => {},
    experimental_download: noDownloads,
  })

  const calls: ModelCall[] = []
  let text = ''
  let finish: { readonly reason: string; readonly usage: LanguageModelUsage } | null = null
  try {
    for await (const part of result.stream) {
      if (part.type === 'error') throw part.error
      if (part.type === 'abort') throw request.signal.reason
      if (part.type === 'text-delta' && part.text !== '') {
        text += part.text
        yield { type: 'text-delta', text: part.text }
      }
      if (part.type === 'tool-call') {
        if (part.providerExecuted === true) throw new Error('the provider executed a tool itself, past every rule')
        calls.push({
          callId: part.toolCallId,
          name: part.toolName,
          args: plainJson<unknown>(part.input ?? null) as JsonValue,
        })
      }
      if (part.type === 'finish-step') finish = { reason: part.finishReason, usage: part.usage }
    }
  } catch (error) {
    throw RetryError.isInstance(error) ? error.lastError : error
  }
  if (finish === null || FAILED.has(finish.reason))
    throw new Error('the model stream ended before the turn was finished')

  return {
    message: assistantMessage(await result.responseMessages, calls, request),
    calls: CUT_OFF.has(finish.reason) ? calls.map(unfinished) : calls,
    text,
    usage: usageOf(finish.usage, request, { text, calls }),
  }
}

/** A provider may answer with the address of a file; a session carries text and fetches nothing it was told to. */
async function noDownloads(wanted: readonly unknown[]): Promise<never[]> {
  if (wanted.length > 0) throw new Error('the model answered with a file, which a session does not download')
  return []
}

/** The model's own message, with its calls in a form that every provider takes back. */
function assistantMessage(
  response: readonly ModelMessage[],
  calls: readonly ModelCall[],
  request: Pick<TurnRequest, 'nameInHistory'>,
): AssistantModelMessage | null {
  const spoken = response.find((message) => message.role === 'assistant')
  if (spoken === undefined || typeof spoken.content === 'string') return spoken ?? null
  const written = new Map(calls.map((call) => [call.callId, call.args]))
  const content = spoken.content.map((part) => {
    if (part.type !== 'tool-call') return part
    const args = written.get(part.toolCallId)
    // Anthropic and Google refuse arguments that are not an object.
    return { ...part, toolName: request.nameInHistory(part.toolName), input: isJsonObject(args) ? args : {} }
  })
  return plainJson({ ...spoken, content })
}

function unfinished(call: ModelCall): ModelCall {
  return { ...call, args: typeof call.args === 'string' ? call.args : JSON.stringify(call.args) }
}

/** Characters a token, for providers that report no usage: a cost ceiling that counts nothing would hold nothing. */
const CHARACTERS_PER_TOKEN = 4

function usageOf(usage: LanguageModelUsage, request: TurnRequest, spoken: unknown): ModelUsage {
  return {
    ...request.identity,
    inputTokens: usage.inputTokens ?? estimate([request.instructions, request.messages]),
    outputTokens: usage.outputTokens ?? estimate(spoken),
  }
}

function estimate(value: unknown): number {
  return Math.ceil(JSON.stringify(value).length / CHARACTERS_PER_TOKEN)
}
