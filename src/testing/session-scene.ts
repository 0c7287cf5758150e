import assert from 'node:assert/strict'
import { stopSlot } from '../runs/segment-stop.ts'
import type {
  AgentFramework,
  AgentSession,
  CallResult,
  Proposal,
  SessionEnd,
  SessionEvent,
  SessionInput,
  SessionRequest,
  SessionState,
  StopSlot,
} from '../runs/session.ts'
import type { ErrorCode } from '../tools/errors.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import type { SideEffects, ToolResult, ToolSpec } from '../tools/models.ts'
import { plainSpec } from './plain-spec.ts'
import { scriptedTurns, type PastTurn, type Script, type ScriptedConversation, type ScriptedTurn } from './script.ts'

/**
 * Builds the adapter under test on a model that plays the script. Called again for every restart. The adapter makes one
 * attempt at a turn: a case that fails the provider would wait for its retries.
 */
export type SessionFactory = (script: Script) => AgentFramework

/** One thing every adapter must do. Rejects with an assertion that says what it did instead. */
export interface SessionCase {
  readonly name: string
  readonly run: (make: SessionFactory) => Promise<void>
}

export const START = { kind: 'start', text: 'Invite Jo to the demo.' } as const
export const CONTINUE = { kind: 'continue' } as const

const INSTRUCTIONS = 'Help the sales team.'
const ANY_OBJECT: JsonObject = { type: 'object', properties: { q: { type: 'string' }, to: { type: 'string' } } }

/** A frozen contract with everything a session does not look at left at its plainest. */
export function contract(name: string, sideEffects: SideEffects, inputSchema: JsonObject = ANY_OBJECT): ToolSpec {
  return plainSpec({ name, inputSchema, sideEffects, timeoutS: 10 })
}

export const READ = contract('crm.search_people', 'read')
export const WRITE = contract('crm.upsert_person', 'write')
export const SEND = contract('email.send', 'send')

export function answer(data: JsonValue): ToolResult {
  return { ok: true, data, error: null, meta: { truncated: false, untrusted: false }, stop: null }
}

export function refusal(code: ErrorCode, message: string): ToolResult {
  const error = { code, message, retryable: false }
  return { ok: false, data: null, error, meta: { truncated: false, untrusted: false }, stop: null }
}

export interface SceneOptions {
  /** A read, a write and a send unless given. */
  readonly contracts?: readonly ToolSpec[]
  /** None unless given. */
  readonly pausable?: SessionRequest['pausable']
  /** Answers what it was asked, unless given. */
  readonly callRead?: SessionRequest['callRead']
}

/** One conversation under test, and everything that its model and its reads were asked. */
export class SessionScene {
  /** What the model was shown, once a call. */
  readonly seen: ScriptedConversation[] = []
  readonly reads: { readonly tool: string; readonly args: JsonValue }[] = []
  readonly framework: AgentFramework
  readonly #make: SessionFactory
  readonly #script: Script
  readonly #options: SceneOptions

  constructor(make: SessionFactory, script: Script | readonly ScriptedTurn[], options: SceneOptions = {}) {
    const play = typeof script === 'function' ? script : scriptedTurns(script)
    this.#make = make
    this.#script = (conversation) => {
      this.seen.push(conversation)
      return play(conversation)
    }
    this.#options = options
    this.framework = make(this.#script)
  }

  open(stop: StopSlot = stopSlot()): AgentSession {
    return this.framework.open(this.#request(null, stop))
  }

  /** The same session in another process: its state crosses as text, everything else is built anew. */
  restarted(session: AgentSession, stop: StopSlot = stopSlot()): AgentSession {
    return this.resumed(JSON.parse(JSON.stringify(session.save())) as SessionState, stop)
  }

  resumed(saved: SessionState, stop: StopSlot = stopSlot()): AgentSession {
    return this.#make(this.#script).open(this.#request(saved, stop))
  }

  #request(saved: SessionState | null, stop: StopSlot): SessionRequest {
    return {
      instructions: INSTRUCTIONS,
      contracts: this.#options.contracts ?? [READ, WRITE, SEND],
      pausable: this.#options.pausable ?? new Set(),
      model: 'scripted/story',
      saved,
      stop,
      callRead: (tool, args) => {
        this.reads.push({ tool, args })
        return this.#options.callRead?.(tool, args) ?? Promise.resolve(answer({ asked: args }))
      },
    }
  }
}

export async function advance(
  session: AgentSession,
  input: SessionInput,
  signal: AbortSignal = new AbortController().signal,
): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of session.advance(input, signal)) events.push(event)
  assertGrammar(events)
  return events
}

/** Turns one after another, each with its text inside; only a turn that was stopped has no end of its own; one end, last. */
function assertGrammar(events: readonly SessionEvent[]): void {
  const letters = { 'turn-start': 's', 'text-delta': 't', 'turn-end': 'e', end: '.' } as const
  const told = events.map((event) => letters[event.type]).join('')
  assert.match(told, /^(st*e)*(st*)?\.$/, 'a segment is turns with text inside, and exactly one end, last')
}

export function endOf(events: readonly SessionEvent[]): SessionEnd {
  const last = events.at(-1)
  assert(last?.type === 'end', 'a segment has an end')
  return last.end
}

export function proposalsOf(events: readonly SessionEvent[]): readonly Proposal[] {
  const end = endOf(events)
  assert(end.kind === 'paused', `a segment that proposes something is paused, not ${end.kind}`)
  return end.proposals
}

/** The same result for every proposal. */
export function results(proposals: readonly Proposal[], result: ToolResult): SessionInput {
  return { kind: 'results', results: proposals.map((proposal): CallResult => ({ proposal, result })) }
}

export function countOf(events: readonly SessionEvent[], type: SessionEvent['type']): number {
  return events.filter((event) => event.type === type).length
}

export function textOf(events: readonly SessionEvent[]): string {
  return events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('')
}

/** A conversation as data: two of them can be compared. */
export function shown({ instructions, input, turns, tools }: ScriptedConversation): {
  readonly instructions: string
  readonly input: string
  readonly turns: readonly PastTurn[]
  readonly tools: readonly string[]
} {
  return { instructions, input, turns, tools }
}

export function answersOf(turn: PastTurn | undefined): readonly (string | null)[] {
  return turn?.calls.map((call) => call.answer) ?? []
}

/** Lets everything run that is ready to run: what an adapter does without being asked shows here. */
export async function idle(): Promise<void> {
  for (let round = 0; round < 5; round += 1) await new Promise((resolve) => setImmediate(resolve))
}

/** A refusal of the session itself, whenever it comes: when it is opened or when it is first advanced. */
export async function assertRefuses(open: () => AgentSession, input: SessionInput, pattern: RegExp): Promise<void> {
  await assert.rejects(
    async () => {
      await advance(open(), input)
    },
    (error) => error instanceof Error && pattern.test(error.message),
  )
}
