import type {
  AgentFramework,
  AgentSession,
  Proposal,
  SessionEnd,
  SessionEvent,
  SessionInput,
  SessionRequest,
  SessionState,
} from '../../runs/session.ts'
import { modelToolName } from '../../tools/models.ts'
import { modelPayload } from '../../tools/render.ts'
import { declareTools, historyName, type DeclaredTools, type ReadCall } from './declare-tools.ts'
import { streamTurn, type ModelCall, type ModelTurn, type TurnRequest } from './model-turn.ts'
import { modelIdentity, type LanguageModel } from './model-types.ts'
import { FRAMEWORK_NAME, restoreState, saveState, type ConversationState } from './state.ts'
import { withInput, withTurn } from './transcript.ts'

export interface AiSdkOptions {
  /** Finds the model of a run by its frozen name; asked once a session, when the first turn starts. */
  readonly resolveModel: (name: string) => LanguageModel | Promise<LanguageModel>
  /** Attempts beyond the first to reach the provider, each before anything was streamed. 2 unless given. */
  readonly maxRetries?: number
  /** Reads of one turn that may run at the same time. 4 unless given. */
  readonly readConcurrency?: number
}

const DEFAULT_RETRIES = 2
/** Reads of one turn that run at the same time, unless it is told otherwise. */
export const READ_CONCURRENCY = 4

/** The adapter for the Vercel AI SDK, version 7. */
export function aiSdkFramework(options: AiSdkOptions): AgentFramework {
  return { name: FRAMEWORK_NAME, open: (request) => new AiSdkSession(request, options) }
}

/**
 * One conversation. The model is called once a turn and only when the consumer pulls, so spend is recorded and ceilings
 * are checked between two calls. A turn enters the conversation whole or not at all: after a provider failure, or a stop
 * that a read recorded, `save()` still answers the state before it.
 */
class AiSdkSession implements AgentSession {
  readonly #request: SessionRequest
  readonly #options: AiSdkOptions
  readonly #declared: DeclaredTools
  #state: ConversationState
  #model: LanguageModel | null = null
  #advancing = false
  /** The reads of the current turn, by call id: each runs once, whoever asks first. */
  #reads = new Map<string, Promise<string>>()

  constructor(request: SessionRequest, options: AiSdkOptions) {
    this.#request = request
    this.#options = options
    this.#declared = declareTools(request, (call) => this.#read(call))
    this.#state = restoreState(request.saved)
  }

  save(): SessionState {
    return saveState(this.#state)
  }

  async *advance(input: SessionInput, signal: AbortSignal): AsyncGenerator<SessionEvent, void> {
    if (this.#advancing) throw new Error('the session is already being advanced')
    this.#advancing = true
    try {
      this.#state = withInput(this.#state, input)
      let end = this.#end()
      while (end === null) {
        yield { type: 'turn-start' }
        const turn = yield* this.#turn(signal)
        if (turn !== null) yield { type: 'turn-end', usage: turn.usage, text: turn.text }
        end = this.#end()
      }
      yield { type: 'end', end }
    } finally {
      this.#advancing = false
    }
  }

  /** How the segment ends now, or null when the model is to speak. The stop is looked at before anything else. */
  #end(): SessionEnd | null {
    const stop = this.#request.stop.current
    if (stop !== null) return { kind: 'stopped', stop }
    const { phase, proposals, text } = this.#state
    if (phase === 'paused') return { kind: 'paused', proposals }
    return phase === 'finished' ? { kind: 'finished', text } : null
  }

  /** Answers null when the turn broke off because of a recorded stop. */
  async *#turn(signal: AbortSignal): AsyncGenerator<SessionEvent, ModelTurn | null> {
    this.#reads = new Map()
    const abandoned = new AbortController()
    try {
      signal.throwIfAborted()
      const turn = yield* streamTurn(await this.#turnRequest(AbortSignal.any([signal, abandoned.signal])))
      const { answers, proposals } = await this.#answer(turn.calls)
      if (this.#request.stop.current === null) {
        this.#state = withTurn(this.#state, { message: turn.message, text: turn.text, answers, proposals })
      }
      return turn
    } catch (error) {
      if (this.#request.stop.current === null) throw error
      return null
    } finally {
      // Also reached when the consumer walks away: the provider is hung up on, and no read is left running unobserved.
      abandoned.abort()
      await Promise.allSettled(this.#reads.values())
    }
  }

  async #turnRequest(signal: AbortSignal): Promise<TurnRequest> {
    const { instructions, model } = this.#request
    this.#model ??= await this.#options.resolveModel(model)
    return {
      model: this.#model,
      identity: modelIdentity(model),
      instructions,
      messages: this.#state.messages,
      tools: this.#declared.tools,
      nameInHistory: (written) => historyName(written, this.#declared.contractOf(written)),
      signal,
      maxRetries: this.#options.maxRetries ?? DEFAULT_RETRIES,
      readConcurrency: this.#options.readConcurrency ?? READ_CONCURRENCY,
    }
  }

  /** Splits the calls of a turn: reads are answered here, everything else is proposed. */
  async #answer(calls: readonly ModelCall[]): Promise<{ answers: Map<string, string>; proposals: Proposal[] }> {
    const answers = new Map<string, string>()
    const proposals: Proposal[] = []
    for (const { callId, name, args } of calls) {
      const contract = this.#declared.contractOf(name)
      const toolName = contract?.name ?? name.slice(0, MAX_UNKNOWN_NAME_LENGTH)
      // The AI SDK has not run a read it found invalid; the invoker refuses that in the closed set of codes.
      if (contract !== undefined && this.#declared.runsInLoop(contract))
        answers.set(callId, await this.#read({ callId, toolName, args }))
      else proposals.push({ callId, toolName, args })
    }
    return { answers, proposals }
  }

  #read(call: ReadCall): Promise<string> {
    const running = this.#reads.get(call.callId) ?? this.#runRead(call)
    this.#reads.set(call.callId, running)
    return running
  }

  /** Never throws: inside the AI SDK an exception would become a text that the model reads as an answer. */
  async #runRead({ toolName, args }: ReadCall): Promise<string> {
    const { stop } = this.#request
    if (stop.current !== null) return NOT_RUN
    try {
      return modelPayload(await this.#request.callRead(toolName, args), modelToolName(toolName))
    } catch (error) {
      stop.record({ kind: 'failed', code: 'internal_error', message: 'a read could not be answered', error })
      return NOT_RUN
    }
  }
}

/** Fills a slot of a turn that is thrown away because of a stop; no model reads it. */
const NOT_RUN = ''

/** Characters kept of a name that no contract has. */
const MAX_UNKNOWN_NAME_LENGTH = 128
