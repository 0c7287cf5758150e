import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  advance,
  answer,
  endOf,
  openSession,
  type OpenOptions,
  proposalsOf,
  restarted,
  results,
  START,
  stopSlot,
  textOf,
} from '../../../test/ai-sdk-session.ts'
import type { Proposal, SessionEvent } from '../../runs/session.ts'
import { scriptedTurns, type Script, type ScriptedConversation, type ScriptedTurn } from '../../testing/script.ts'
import { scriptedModel } from '../../testing/scripted-model.ts'
import type { JsonObject, JsonValue } from '../../tools/json.ts'

const TURNS: readonly ScriptedTurn[] = [
  { text: 'Looking.', calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }] },
  {
    text: 'Writing.',
    calls: [
      { tool: 'crm.search_people', args: { q: 'sam' } },
      { tool: 'crm.upsert_person', args: { to: 'jo@acme.test' } },
      { tool: 'email.send', args: { to: 'jo@acme.test' } },
    ],
  },
  { text: 'Once more.', calls: [{ tool: 'email.send', args: { to: 'sam@acme.test' } }] },
  { text: 'All done.' },
]

function options(turns: readonly ScriptedTurn[] = TURNS): OpenOptions {
  return {
    model: scriptedModel({ name: 'story', next: scriptedTurns(turns) }),
    callRead: (_, args) => Promise.resolve(answer({ asked: args })),
  }
}

function argsOf(proposals: readonly Proposal[]): JsonValue {
  return proposals.map((proposal) => proposal.args)
}

/** Walks a session to its end, answering every pause and starting again where it is told to. */
async function play(restartAt: ReadonlySet<string>) {
  let session = openSession(options())
  let input: Parameters<typeof advance>[1] = START
  const ends: SessionEvent[] = []
  let said = ''
  for (;;) {
    const events: SessionEvent[] = []
    let interrupted = false
    for await (const event of session.advance(input, new AbortController().signal)) {
      events.push(event)
      if (event.type === 'turn-end' && restartAt.has('after each turn')) {
        interrupted = true
        break
      }
    }
    said += textOf(events)
    if (interrupted) {
      session = restarted(session, options())
      input = { kind: 'continue' }
      continue
    }
    const end = endOf(events)
    ends.push({ type: 'end', end })
    if (end.kind !== 'paused') return { said, ends, saved: session.save() }
    if (restartAt.has('in each pause')) session = restarted(session, options())
    input = results(end.proposals, answer({ done: argsOf(end.proposals) }))
    if (restartAt.has('in each pause, asking again')) {
      session = restarted(session, options())
      input = results(
        proposalsOf(await advance(session, { kind: 'continue' })),
        answer({ done: argsOf(end.proposals) }),
      )
    }
  }
}

describe('a session in another process', () => {
  test.each(['after each turn', 'in each pause', 'in each pause, asking again'])(
    'that starts %s goes on as if it had never stopped',
    async (when) => {
      const uninterrupted = await play(new Set())
      expect(uninterrupted.ends.at(-1)).toEqual({ type: 'end', end: { kind: 'finished', text: 'All done.' } })
      expect(uninterrupted.said).toBe('Looking.Writing.Once more.All done.')
      expect(await play(new Set([when]))).toEqual(uninterrupted)
    },
  )

  test('saves plain JSON in every phase', async () => {
    const session = openSession(options())
    const phases: unknown[] = []
    const look = (): void => {
      const saved = session.save()
      expect(JSON.parse(JSON.stringify(saved))).toEqual(saved)
      phases.push((saved.state as { phase: string }).phase)
    }
    look()
    let end = endOf(await advance(session, START))
    while (end.kind === 'paused') {
      look()
      end = endOf(await advance(session, results(end.proposals, answer(null))))
    }
    look()
    expect(phases).toEqual(['new', 'paused', 'paused', 'finished'])
  })

  test('of a finished run ends at once, without a model call', async () => {
    const session = openSession(options([{ text: 'Hello.' }]))
    await advance(session, START)
    const silent = options([])
    const events = await advance(restarted(session, silent), { kind: 'continue' })
    expect(events).toEqual([{ type: 'end', end: { kind: 'finished', text: 'Hello.' } }])
  })

  test('of a paused run asks for the same proposals again, without a model call', async () => {
    const session = openSession(options([{ calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] }]))
    const proposals = proposalsOf(await advance(session, START))
    const events = await advance(restarted(session, options([])), { kind: 'continue' })
    expect(events).toEqual([{ type: 'end', end: { kind: 'paused', proposals } }])
  })

  test('cannot go on with a run that was never started', async () => {
    await expect(advance(openSession(options()), { kind: 'continue' })).rejects.toThrow(/never started/)
  })
})

test('every call of every conversation gets its own answer, wherever it is interrupted', async () => {
  const call = fc.record({
    tool: fc.constantFrom('crm.search_people', 'crm.upsert_person', 'email.send', 'no_such_tool', 'constructor'),
    id: fc.constantFrom('a', 'b', '', 'call_2', 'not plain'),
  })
  const stories = fc.array(fc.array(call, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(stories, fc.infiniteStream(fc.boolean()), async (story, interruptions) => {
      let marker = 0
      const turns = story.map((calls) => ({
        calls: calls.map((made) => ({ ...made, args: { q: `q${(marker += 1)}` } })),
      }))
      let last: ScriptedConversation | null = null
      const script = scriptedTurns([...turns, { text: 'The end.' }])
      const next: Script = (conversation) => script((last = conversation))
      const shared: OpenOptions = { ...options(), model: scriptedModel({ name: 'story', next }) }
      let session = openSession(shared)
      let end = endOf(await advance(session, START))
      while (end.kind === 'paused') {
        if (interruptions.next().value === true) session = restarted(session, shared)
        const answers = end.proposals.map((proposal) => ({ proposal, result: answer({ asked: proposal.args }) }))
        end = endOf(await advance(session, { kind: 'results', results: answers }))
      }
      expect(end).toEqual({ kind: 'finished', text: 'The end.' })
      const calls = last!.turns.flatMap((turn) => turn.calls)
      expect(calls.map((made) => (made.args as JsonObject)['q'])).toEqual(
        Array.from({ length: marker }, (_, i) => `q${i + 1}`),
      )
      for (const made of calls) expect(made.answer).toContain(`"${(made.args as { q: string }).q}"`)
      expect(new Set(calls.map((made) => made.id)).size).toBe(calls.length)
    }),
    { numRuns: 50 },
  )
})

describe('a provider that fails', () => {
  const FAILURE = new Error('overloaded; api key sk-secret')

  test.each<[string, ScriptedTurn]>([
    ['before it streams', { fail: FAILURE, failTimes: 1, calls: [{ tool: 'email.send' }] }],
    [
      'in the middle of a text',
      { text: 'I was about to', fail: FAILURE, failTimes: 1, calls: [{ tool: 'email.send' }] },
    ],
  ])('%s rejects with its own error, and the saved state is good for another try', async (_, failing) => {
    const shared = options([{ calls: [{ tool: 'crm.search_people', args: { q: 'jo' } }] }, failing, { text: 'Sent.' }])
    const session = openSession(shared)
    await expect(advance(session, START)).rejects.toBe(FAILURE)
    expect(session.save().state).toMatchObject({ phase: 'running' })
    expect(JSON.stringify(session.save())).not.toContain('sk-secret')

    const next = restarted(session, shared)
    const proposals = proposalsOf(await advance(next, { kind: 'continue' }))
    expect(endOf(await advance(next, results(proposals, answer(null))))).toEqual({ kind: 'finished', text: 'Sent.' })
  })

  test('after results were delivered keeps the results', async () => {
    const shared = options([{ calls: [{ tool: 'email.send' }] }, { fail: FAILURE, failTimes: 1, text: '' }])
    const session = openSession(shared)
    const proposals = proposalsOf(await advance(session, START))
    await expect(advance(session, results(proposals, answer({ effect: 1 })))).rejects.toBe(FAILURE)
    expect(JSON.stringify(session.save())).toContain('effect')
    expect(endOf(await advance(restarted(session, shared), { kind: 'continue' })).kind).toBe('finished')
  })

  test('is not looked at when a stop was recorded first', async () => {
    const stop = stopSlot()
    stop.record({ kind: 'cancelled', reason: 'enough' })
    const session = openSession({ ...options([{ fail: FAILURE }]), stop })
    const events = await advance(session, START)
    expect(events).toEqual([{ type: 'end', end: { kind: 'stopped', stop: { kind: 'cancelled', reason: 'enough' } } }])
  })
})

describe('an abort', () => {
  test('before the model is called rejects with its reason', async () => {
    const reason = new Error('the process is going down')
    const session = openSession(options())
    await expect(advance(session, START, AbortSignal.abort(reason))).rejects.toBe(reason)
    expect(session.save().state).toMatchObject({ phase: 'running' })
  })

  test('in the middle of a text rejects with its reason and keeps the state before the turn', async () => {
    const reason = new Error('the process is going down')
    const controller = new AbortController()
    const shared = options([{ text: 'A long story about many things that never comes to its end.' }])
    const session = openSession(shared)
    const told = async (): Promise<void> => {
      for await (const event of session.advance(START, controller.signal)) {
        if (event.type === 'text-delta') controller.abort(reason)
      }
    }
    await expect(told()).rejects.toBe(reason)
    expect(endOf(await advance(restarted(session, shared), { kind: 'continue' })).kind).toBe('finished')
  })

  test('during a read waits for the read, which is never left running unobserved', async () => {
    const controller = new AbortController()
    let finished = false
    const session = openSession({
      ...options(),
      callRead: async () => {
        controller.abort(new Error('going down'))
        await new Promise((resolve) => setImmediate(resolve))
        finished = true
        return answer(null)
      },
    })
    await expect(advance(session, START, controller.signal)).rejects.toThrow('going down')
    expect(finished).toBe(true)
  })

  test('a consumer that walks away leaves a session that can be advanced again', async () => {
    const session = openSession(options([{ text: 'Hello there, how are you today?' }]))
    for await (const event of session.advance(START, new AbortController().signal)) {
      if (event.type === 'text-delta') break
    }
    expect(endOf(await advance(session, { kind: 'continue' })).kind).toBe('finished')
  })

  test('two advances at the same time are refused', async () => {
    const session = openSession(options([{ text: 'Hello.' }]))
    const first = session.advance(START, new AbortController().signal)[Symbol.asyncIterator]()
    await first.next()
    await expect(advance(session, { kind: 'continue' })).rejects.toThrow(/already being advanced/)
  })
})
