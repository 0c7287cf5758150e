import { describe, expect, test } from 'vitest'
import {
  advance,
  openSession,
  proposalsOf,
  restarted,
  START,
  story,
  type OpenOptions,
} from '../../../test/ai-sdk-session.ts'
import type { ScriptedTurn } from '../../testing/script.ts'

const FAILURE = new Error('overloaded; api key sk-secret')

const options = (...turns: readonly ScriptedTurn[]): OpenOptions => ({ model: story(...turns) })

test('a session is saved with its phase, and with its messages as the AI SDK takes them', async () => {
  const session = openSession(options({ calls: [{ tool: 'crm.search_people' }, { tool: 'email.send' }] }))
  expect(session.save().state).toMatchObject({ phase: 'new', messages: [] })
  await advance(session, START)
  expect(session.save().state).toMatchObject({
    phase: 'paused',
    messages: [{ role: 'user' }, { role: 'assistant' }, { role: 'tool', content: [{ toolName: 'crm_search_people' }] }],
  })
})

describe('a provider that fails', () => {
  test.each<[string, ScriptedTurn]>([
    ['before it streams', { fail: FAILURE, failTimes: 1, calls: [{ tool: 'email.send' }] }],
    [
      'in the middle of a text',
      { text: 'I was about to', fail: FAILURE, failTimes: 1, calls: [{ tool: 'email.send' }] },
    ],
  ])('%s rejects with its own error, which is wrapped in no retry', async (_, failing) => {
    const shared = options({ calls: [{ tool: 'crm.search_people' }] }, failing)
    const session = openSession(shared)
    await expect(advance(session, START)).rejects.toBe(FAILURE)
    expect(session.save().state).toMatchObject({ phase: 'running' })
    expect(proposalsOf(await advance(restarted(session, shared), { kind: 'continue' }))).toHaveLength(1)
  })

  test('after a text was told is not tried again by itself, whatever the deployment says: no text is told twice', async () => {
    const retryable = Object.assign(new Error('overloaded'), { isRetryable: true })
    const session = openSession({
      ...options({ text: 'Hello.', fail: retryable, failTimes: 1 }),
      framework: { maxRetries: 1 },
    })
    await expect(advance(session, START)).rejects.toBe(retryable)
  })
})

test('two advances at the same time are refused', async () => {
  const session = openSession(options({ text: 'Hello.' }))
  const first = session.advance(START, new AbortController().signal)[Symbol.asyncIterator]()
  await first.next()
  await expect(advance(session, { kind: 'continue' })).rejects.toThrow(/already being advanced/)
})
