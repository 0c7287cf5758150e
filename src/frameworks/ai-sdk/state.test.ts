import { expect, test } from 'vitest'
import { UnreadableSession } from '../../runs/unreadable-session.ts'
import type { JsonObject, JsonValue } from '../../tools/json.ts'
import {
  currentState,
  NEW_CONVERSATION,
  restoreState,
  saveState,
  STATE_VERSION,
  type ConversationState,
  type Upcaster,
} from './state.ts'

const PAUSED: ConversationState = {
  phase: 'paused',
  messages: [
    { role: 'user', content: 'Invite Jo.' },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm', providerOptions: { anthropic: { signature: 'abc' } } },
        { type: 'tool-call', toolCallId: 'c1', toolName: 'email_send', input: { to: 'jo@acme.test' } },
      ],
    },
  ],
  proposals: [{ callId: 'c1', toolName: 'email.send', args: { to: 'jo@acme.test' } }],
  text: '',
}

test('a saved state is restored as it was, provider details included', () => {
  expect(restoreState(saveState(PAUSED))).toEqual(PAUSED)
  expect(restoreState(null)).toBe(NEW_CONVERSATION)
})

test('a saved state shares nothing with the conversation that goes on', () => {
  const saved = saveState(PAUSED)
  const restored = restoreState(saved)
  expect(restored.messages[1]).not.toBe(PAUSED.messages[1])
  expect(restored.messages).not.toBe((saved.state as JsonObject)['messages'])
})

test('a state of a newer build or of another framework is refused with the reason', () => {
  expect(() => restoreState({ ...saveState(PAUSED), version: STATE_VERSION + 1 })).toThrow(
    `version ${STATE_VERSION + 1} by a newer build`,
  )
  expect(() => restoreState({ ...saveState(PAUSED), framework: 'mastra' })).toThrow(/framework mastra, not by ai-sdk/)
  expect(() => restoreState({ ...saveState(PAUSED), version: 0 })).toThrow(/version 0 any more/)
})

test('a damaged state is refused, not guessed at', () => {
  const damaged = { ...(saveState(PAUSED).state as JsonObject), messages: [{ role: 'wizard' }] }
  expect(() => restoreState({ framework: 'ai-sdk', version: STATE_VERSION, state: damaged })).toThrow(/cannot be read/)
  expect(() => restoreState({ framework: 'ai-sdk', version: STATE_VERSION, state: null })).toThrow(/cannot be read/)
})

test('an older state walks up one version a step, and one with a step missing is refused', () => {
  const upcasters = new Map<number, Upcaster>([
    [1, (state) => ({ was: [state] })],
    [2, (state) => ({ ...(state as JsonObject), third: true })],
  ])
  const readable = { framework: 'ai-sdk', version: 3, upcasters }
  const saved = (version: number, state: JsonValue) => ({ framework: 'ai-sdk', version, state })
  expect(currentState(saved(1, 'first'), readable)).toEqual({ was: ['first'], third: true })
  expect(currentState(saved(2, { was: [] }), readable)).toEqual({ was: [], third: true })
  expect(currentState(saved(3, 'third'), readable)).toBe('third')
  expect(() => currentState(saved(1, 'first'), { ...readable, version: 4 })).toThrow(UnreadableSession)
})
