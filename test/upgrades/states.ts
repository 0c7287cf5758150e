import { wrapLanguageModel } from 'ai'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import type { LanguageModel, ModelPrompt, ModelStreamPart } from '../../src/frameworks/ai-sdk/model-types.ts'
import { stopSlot } from '../../src/runs/segment-stop.ts'
import type { AgentSession, CallResult, Proposal, SessionInput, SessionState } from '../../src/runs/session.ts'
import { scriptedTurns } from '../../src/testing/script.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { advance, answer, proposalsOf, READ, SEND, START, WRITE } from '../../src/testing/session-scene.ts'

/** Where a conversation was saved: the four phases, and `running` once behind a turn and once behind results. */
export const MOMENTS = ['new', 'running', 'paused', 'answered', 'finished'] as const

export type Moment = (typeof MOMENTS)[number]

/** What the provider wants back with the next turn, word for word. */
export const SIGNATURE = 'a signature of the provider'

/** The conversation of the examples. It stays as it is. */
const TURNS = [
  { text: 'Looking.', calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }] },
  {
    text: 'Writing.',
    calls: [
      { tool: 'crm.search_people', args: { q: 'sam' } },
      { tool: 'crm.upsert_person', args: { to: 'jo@acme.test' } },
      { tool: 'no_such_tool', rawArgs: 'not JSON' },
      { tool: 'email.send', args: { to: 'jo@acme.test' } },
    ],
  },
  { text: 'All done.' },
] as const

export interface Replay {
  readonly session: AgentSession
  /** What the model was sent, once a turn. */
  readonly prompts: ModelPrompt[]
}

/** The conversation of the examples, from a saved state or from the start. */
export function replay(saved: SessionState | null): Replay {
  const prompts: ModelPrompt[] = []
  const model = thinking(scriptedModel({ name: 'scripted/story', next: scriptedTurns(TURNS) }), prompts)
  const session = aiSdkFramework({ resolveModel: () => model, maxRetries: 0 }).open({
    instructions: 'Help the sales team.',
    contracts: [READ, WRITE, SEND],
    pausable: new Set(),
    model: 'scripted/story',
    saved,
    stop: stopSlot(),
    callRead: (_tool, args) => Promise.resolve(answer({ asked: args })),
  })
  return { session, prompts }
}

export function done(proposals: readonly Proposal[]): SessionInput {
  return { kind: 'results', results: proposals.map((proposal): CallResult => ({ proposal, result: answer('done') })) }
}

/** The states that this build saves along the conversation. */
export async function savedStates(): Promise<Readonly<Record<Moment, SessionState>>> {
  const { session } = replay(null)
  const fresh = session.save()
  const running = await savedAt(session, START, 'turn-end')
  const proposals = proposalsOf(await advance(session, { kind: 'continue' }))
  const paused = session.save()
  const answered = await savedAt(session, done(proposals), 'turn-start')
  await advance(session, { kind: 'continue' })
  return { new: fresh, running, paused, answered, finished: session.save() }
}

async function savedAt(session: AgentSession, input: SessionInput, moment: string): Promise<SessionState> {
  for await (const event of session.advance(input, new AbortController().signal)) {
    if (event.type === moment) break
  }
  return session.save()
}

/** Thinks before every turn, signed, as providers do whose thoughts must be sent back unchanged. */
function thinking(model: LanguageModel, prompts: ModelPrompt[]): LanguageModel {
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      async wrapStream({ doStream, params }) {
        prompts.push(params.prompt)
        const result = await doStream()
        return { ...result, stream: result.stream.pipeThrough(thoughts()) }
      },
    },
  })
}

function thoughts(): TransformStream<ModelStreamPart, ModelStreamPart> {
  const providerMetadata = { anthropic: { signature: SIGNATURE } }
  return new TransformStream({
    transform(part, controller) {
      controller.enqueue(part)
      if (part.type !== 'stream-start') return
      controller.enqueue({ type: 'reasoning-start', id: 'thought' })
      controller.enqueue({ type: 'reasoning-delta', id: 'thought', delta: 'Hm.' })
      controller.enqueue({ type: 'reasoning-end', id: 'thought', providerMetadata })
    },
  })
}
