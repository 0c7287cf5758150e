import { aiSdkFramework, type AiSdkOptions, type LanguageModel } from '../src/frameworks/ai-sdk/index.ts'
import { stopSlot } from '../src/runs/segment-stop.ts'
import type { AgentSession, SessionRequest, SessionState, StopSlot } from '../src/runs/session.ts'
import { scriptedTurns, type ScriptedConversation, type ScriptedTurn } from '../src/testing/script.ts'
import { scriptedModel } from '../src/testing/scripted-model.ts'
import { answer, READ, SEND, WRITE } from '../src/testing/session-scene.ts'
import type { ToolSpec } from '../src/tools/models.ts'

export { stopSlot }
export {
  advance,
  answer,
  contract,
  endOf,
  proposalsOf,
  READ,
  refusal,
  results,
  SEND,
  START,
  textOf,
  WRITE,
} from '../src/testing/session-scene.ts'

export interface OpenOptions {
  readonly model: LanguageModel
  readonly contracts?: readonly ToolSpec[]
  readonly pausable?: SessionRequest['pausable']
  readonly saved?: SessionState | null
  readonly stop?: StopSlot
  readonly callRead?: SessionRequest['callRead']
  readonly modelName?: string
  readonly instructions?: string
  readonly framework?: Partial<AiSdkOptions>
}

export function openSession(options: OpenOptions): AgentSession {
  const framework = aiSdkFramework({ resolveModel: () => options.model, maxRetries: 0, ...options.framework })
  return framework.open({
    instructions: options.instructions ?? 'Help the sales team.',
    contracts: options.contracts ?? [READ, WRITE, SEND],
    pausable: options.pausable ?? new Set(),
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
