import { describe, expect, test } from 'vitest'
import { aiSdkFramework } from '../frameworks/ai-sdk/session.ts'
import { stopSlot } from '../runs/segment-stop.ts'
import type {
  AgentFramework,
  AgentSession,
  CallResult,
  Proposal,
  SessionEvent,
  SessionInput,
  SessionRequest,
  SessionState,
} from '../runs/session.ts'
import type { JsonValue } from '../tools/json.ts'
import { modelToolName } from '../tools/models.ts'
import { scriptedModel } from './scripted-model.ts'
import { answer, refusal } from './session-scene.ts'
import { sessionSuite, type SessionFactory } from './session-suite.ts'

/** An adapter that does one thing wrong. */
interface Fault {
  readonly request?: (request: SessionRequest) => SessionRequest
  readonly input?: (input: SessionInput, open: readonly Proposal[]) => SessionInput
  readonly signal?: (signal: AbortSignal) => AbortSignal
  readonly events?: (events: AsyncIterable<SessionEvent>) => AsyncIterable<SessionEvent>
  readonly save?: (session: AgentSession) => () => SessionState
}

const keep = <T>(value: T): T => value

function faulty(fault: Fault): SessionFactory {
  const { request = keep, input = keep, signal = keep, events = keep } = fault
  return (script) => {
    const model = scriptedModel({ name: 'story', next: script })
    const framework = aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })
    return { name: framework.name, open: (given) => sessionOf(framework.open(request(given))) }
  }

  function sessionOf(session: AgentSession): AgentSession {
    let open: readonly Proposal[] = []
    return {
      save: fault.save?.(session) ?? (() => session.save()),
      async *advance(given, aborted) {
        for await (const event of events(session.advance(input(given, open), signal(aborted)))) {
          if (event.type === 'end' && event.end.kind === 'paused') open = event.end.proposals
          yield event
        }
      },
    }
  }
}

const everything = { sideEffects: 'read' } as const
const oneStop = stopSlot()

const withResults =
  (change: (results: readonly CallResult[], open: readonly Proposal[]) => readonly CallResult[]) =>
  (input: SessionInput, open: readonly Proposal[]): SessionInput =>
    input.kind === 'results' ? { ...input, results: change(input.results, open) } : input

const withEvents = (change: (event: SessionEvent) => readonly SessionEvent[]) =>
  async function* (events: AsyncIterable<SessionEvent>): AsyncGenerator<SessionEvent> {
    for await (const event of events) yield* change(event)
  }

const withProposals = (change: (proposals: readonly Proposal[]) => readonly Proposal[]) =>
  withEvents((event) => {
    if (event.type !== 'end' || event.end.kind !== 'paused') return [event]
    return [{ type: 'end', end: { ...event.end, proposals: change(event.end.proposals) } }]
  })

async function* oneAhead(events: AsyncIterable<SessionEvent>): AsyncGenerator<SessionEvent> {
  const ahead = events[Symbol.asyncIterator]()
  let next = ahead.next()
  for (;;) {
    const { value, done } = await next
    if (done === true) return
    next = ahead.next()
    next.catch(() => undefined)
    yield value
  }
}

async function* neverFailing(events: AsyncIterable<SessionEvent>): AsyncGenerator<SessionEvent> {
  try {
    yield* events
  } catch {
    yield { type: 'end', end: { kind: 'finished', text: '' } }
  }
}

const withSaved =
  (change: (saved: SessionState) => SessionState) =>
  (request: SessionRequest): SessionRequest => ({
    ...request,
    saved: request.saved === null ? null : change(request.saved),
  })

const FAULTS: Readonly<Record<string, readonly [fault: Fault, found: string]>> = {
  'runs a write inside its loop': [
    { request: (given) => ({ ...given, contracts: given.contracts.map((one) => ({ ...one, ...everything })) }) },
    'T13 R07 reads run inside the loop',
  ],
  'hides a tool': [
    { request: (given) => ({ ...given, contracts: given.contracts.slice(1) }) },
    'R03 the model reads the instructions',
  ],
  'tells its end twice': [
    { events: withEvents((event) => (event.type === 'end' ? [event, event] : [event])) },
    'a conversation without calls',
  ],
  'tells no end': [
    { events: withEvents((event) => (event.type === 'end' ? [] : [event])) },
    'a conversation without calls',
  ],
  'reports no usage': [
    { events: withEvents((event) => (event.type === 'turn-end' ? [] : [event])) },
    'several turns of reads run in one segment',
  ],
  'calls the model ahead': [{ events: oneAhead }, 'no model is called before the consumer pulls'],
  'turns the proposals round': [
    { events: withProposals((proposals) => proposals.toReversed()) },
    'R09 the writes of one turn are proposed together',
  ],
  'merges equal proposals': [
    {
      events: withProposals((proposals) => [
        ...new Map(proposals.map((one) => [JSON.stringify(one.args), one])).values(),
      ]),
    },
    'R09 the writes of one turn are proposed together',
  ],
  'makes up a result that is missing': [
    {
      input: withResults((results, open) =>
        open.map((proposal) => results.find((one) => one.proposal === proposal) ?? { proposal, result: answer(null) }),
      ),
    },
    'results are refused unless',
  ],
  'drops a result that nobody asked for': [
    { input: withResults((results, open) => results.filter((one) => open.includes(one.proposal))) },
    'results are refused unless',
  ],
  'takes the last of two results': [
    {
      input: withResults((results) => [...new Map(results.map((one) => [one.proposal.callId, one])).values()]),
    },
    'results are refused unless',
  ],
  'goes on with a session that was never started': [
    { input: (input) => (input.kind === 'continue' ? { kind: 'start', text: '' } : input) },
    'an input that does not fit the phase',
  ],
  'delivers results by their order': [
    {
      input: withResults((results, open) =>
        open.flatMap((proposal, index) => {
          const given = results[index]
          return given === undefined ? [] : [{ proposal, result: given.result }]
        }),
      ),
    },
    'T14 a denial is delivered beside a success',
  ],
  'shows a stranger’s words as its own': [
    {
      request: (given) => ({
        ...given,
        callRead: async (tool, args) => {
          const result = await given.callRead(tool, args)
          return { ...result, meta: { ...result.meta, untrusted: false } }
        },
      }),
    },
    'R36 an answer from outside',
  ],
  'does not look at the stop': [
    { request: (given) => ({ ...given, stop: stopSlot() }) },
    'R10 a read that recorded a stop',
  ],
  'looks at the pause first': [
    { request: (given) => ({ ...given, stop: stopSlot() }) },
    'R11 the stop is read before the status',
  ],
  'has one stop for all': [
    {
      request: (given) => {
        const record = given.stop.record.bind(given.stop)
        given.stop.record = (stop) => {
          record(stop)
          oneStop.record(stop)
        }
        return { ...given, stop: oneStop }
      },
    },
    'T11 two segments of one adapter',
  ],
  'answers the model with an exception': [
    {
      request: (given) => ({
        ...given,
        callRead: (tool, args) =>
          given.callRead(tool, args).catch((error: unknown) => refusal('internal_error', String(error))),
      }),
    },
    'R10 an exception of a read',
  ],
  'takes two tools of one name for one': [
    {
      request: (given) => ({
        ...given,
        contracts: [...new Map(given.contracts.map((one) => [modelToolName(one.name), one])).values()],
      }),
    },
    'T67 two contracts that derive one name',
  ],
  'proposes derived names': [
    {
      events: withProposals((proposals) => proposals.map((one) => ({ ...one, toolName: modelToolName(one.toolName) }))),
    },
    'T66 R38 a dotted name',
  ],
  'repairs arguments': [
    {
      events: withProposals((proposals) =>
        proposals.map((one) => ({ ...one, args: Object(one.args) as object as {} })),
      ),
    },
    'arguments that are no JSON',
  ],
  'forgets the request when it saves': [
    {
      save: (session) => () => {
        const saved = session.save()
        const state = saved.state as { readonly messages: readonly JsonValue[] }
        return { ...saved, state: { ...state, messages: state.messages.slice(1) } }
      },
    },
    'a session that goes on in another process in each pause',
  ],
  'reads the state of a newer build': [
    { request: withSaved((saved) => ({ ...saved, version: Math.min(saved.version, 1) })) },
    'a state of a newer version',
  ],
  'reads the state of another framework': [
    { request: withSaved((saved) => ({ ...saved, framework: 'ai-sdk' })) },
    'a state of a newer version',
  ],
  'ends a turn that failed': [{ events: neverFailing }, 'a provider that fails before it streams'],
  'goes on when it was told to stop': [
    { signal: () => new AbortController().signal },
    'an abort in the middle of a text',
  ],
}

describe('the suite finds an adapter that', () => {
  test.each(Object.entries(FAULTS).map(([name, [fault, found]]) => ({ name, fault, found })))(
    '$name',
    async ({ fault, found }) => {
      const [wanted, ...others] = sessionSuite.filter(({ name }) => name.startsWith(found))
      expect(others).toEqual([])
      await expect(wanted?.run(faulty(fault))).rejects.toMatchObject({ code: 'ERR_ASSERTION' })
    },
  )

  test('and nothing in one that only looks on', async () => {
    const looked: AgentFramework[] = []
    for (const { run } of sessionSuite) {
      await run((script) => {
        const framework = faulty({})(script)
        looked.push(framework)
        return framework
      })
    }
    expect(looked.length).toBeGreaterThan(sessionSuite.length)
  })
})

test('the cases have names of their own', () => {
  expect(new Set(sessionSuite.map(({ name }) => name)).size).toBe(sessionSuite.length)
})
