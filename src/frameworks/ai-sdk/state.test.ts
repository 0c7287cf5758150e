import { expect, test } from 'vitest'
import type { JsonObject } from '../../tools/json.ts'
import { NEW_CONVERSATION, restoreState, saveState, upcast, type ConversationState, type Upcaster } from './state.ts'

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
  expect(() => restoreState({ ...saveState(PAUSED), version: 2 })).toThrow(/version 2 by a newer build/)
  expect(() => restoreState({ ...saveState(PAUSED), framework: 'mastra' })).toThrow(/framework mastra, not by ai-sdk/)
  expect(() => restoreState({ ...saveState(PAUSED), version: 0 })).toThrow(/version 0 any more/)
})

test('a damaged state is refused, not guessed at', () => {
  const damaged = { ...(saveState(PAUSED).state as JsonObject), messages: [{ role: 'wizard' }] }
  expect(() => restoreState({ framework: 'ai-sdk', version: 1, state: damaged })).toThrow(/cannot be read/)
  expect(() => restoreState({ framework: 'ai-sdk', version: 1, state: null })).toThrow(/cannot be read/)
})

test('an older state walks up one version a step', () => {
  const steps = new Map<number, Upcaster>([
    [1, (state) => ({ was: [state] })],
    [2, (state) => ({ ...(state as JsonObject), third: true })],
  ])
  expect(upcast({ framework: 'ai-sdk', version: 1, state: 'first' }, 3, steps)).toEqual({ was: ['first'], third: true })
  expect(upcast({ framework: 'ai-sdk', version: 3, state: 'third' }, 3, steps)).toBe('third')
})
