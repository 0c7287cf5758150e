import { aiSdkFramework, type AiSdkOptions, type LanguageModel } from '../src/frameworks/ai-sdk/index.ts'
import type {
  AgentSession,
  CallResult,
  Proposal,
  SegmentStop,
  SessionEnd,
  SessionEvent,
  SessionInput,
  SessionRequest,
  SessionState,
  StopSlot,
} from '../src/runs/session.ts'
import { scriptedTurns, type ScriptedConversation, type ScriptedTurn } from '../src/testing/script.ts'
import { scriptedModel } from '../src/testing/scripted-model.ts'
import type { ErrorCode } from '../src/tools/errors.ts'
import type { JsonObject, JsonValue } from '../src/tools/json.ts'
import type { SideEffects, ToolResult, ToolSpec } from '../src/tools/models.ts'

/** A frozen contract with everything a session does not look at left at its plainest. */
export function contract(name: string, sideEffects: SideEffects, inputSchema: JsonObject = ANY_OBJECT): ToolSpec {
  return {
    name,
    description: 'A tool of these tests.',
    inputSchema,
    outputSchema: {},
    version: 1,
    schemaHash: '0'.repeat(64),
    kind: 'internal',
    binding: { handlerKey: name },
    sideEffects,
    connection: null,
    timeoutS: 10,
    retry: 'none',
    metered: false,
    repeatable: sideEffects === 'read' ? null : false,
    approvalPreview: false,
    policyFacts: [],
    batchArgument: null,
    maxBatchSize: null,
    maxResults: null,
    maxOutputBytes: null,
    itemKind: null,
    downstreamKey: false,
    onUnknown: 'reclaim',
  }
}

const ANY_OBJECT: JsonObject = { type: 'object', properties: { q: { type: 'string' }, to: { type: 'string' } } }

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

export function stopSlot(): StopSlot {
  let current: SegmentStop | null = null
  return {
    get current() {
      return current
    },
    record(stop) {
      current ??= stop
    },
  }
}

export interface OpenOptions {
  readonly model: LanguageModel
  readonly contracts?: readonly ToolSpec[]
  readonly saved?: SessionState | null
  readonly stop?: StopSlot
  readonly callRead?: SessionRequest['callRead']
  readonly modelName?: string
  readonly framework?: Partial<AiSdkOptions>
}

export function openSession(options: OpenOptions): AgentSession {
  const framework = aiSdkFramework({ resolveModel: () => options.model, maxRetries: 0, ...options.framework })
  return framework.open({
    instructions: 'Help the sales team.',
    contracts: options.contracts ?? [READ, WRITE, SEND],
    model: options.modelName ?? 'scripted/story',
    saved: options.saved ?? null,
    stop: options.stop ?? stopSlot(),
    callRead: options.callRead ?? (() => Promise.resolve(answer([]))),
  })
}

/** The same session in another process: the saved state crosses as text, everything else is built anew. */
export function restarted(session: AgentSession, options: OpenOptions): AgentSession {
  return openSession({ ...options, saved: JSON.parse(JSON.stringify(session.save())) as SessionState })
}

export async function advance(
  session: AgentSession,
  input: SessionInput,
  signal: AbortSignal = new AbortController().signal,
): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of session.advance(input, signal)) events.push(event)
  return events
}

export function endOf(events: readonly SessionEvent[]): SessionEnd {
  const last = events.at(-1)
  if (last?.type !== 'end') throw new Error('the segment has no end')
  return last.end
}

export function proposalsOf(events: readonly SessionEvent[]): readonly Proposal[] {
  const end = endOf(events)
  if (end.kind !== 'paused') throw new Error(`the segment is ${end.kind}, not paused`)
  return end.proposals
}

export function results(proposals: readonly Proposal[], result: ToolResult): SessionInput {
  return { kind: 'results', results: proposals.map((proposal): CallResult => ({ proposal, result })) }
}

export function countOf(events: readonly SessionEvent[], type: SessionEvent['type']): number {
  return events.filter((event) => event.type === type).length
}

export function textOf(events: readonly SessionEvent[]): string {
  return events.map((event) => (event.type === 'text-delta' ? event.text : '')).join('')
}

export const START = { kind: 'start', text: 'Invite Jo to the demo.' } as const

export function story(...turns: readonly ScriptedTurn[]) {
  return scriptedModel({ name: 'story', next: scriptedTurns(turns) })
}

/** A story that keeps what the model was shown before each of its turns. */
export function watchedStory(...turns: readonly ScriptedTurn[]) {
  const seen: ScriptedConversation[] = []
  const next = scriptedTurns(turns)
  const model = scriptedModel({
    name: 'story',
    next: (conversation) => {
      seen.push(conversation)
      return next(conversation)
    },
  })
  return { model, seen }
}
