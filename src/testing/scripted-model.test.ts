import { generateText, streamText, type ModelMessage } from 'ai'
import { describe, expect, test } from 'vitest'
import type { ToolResult } from '../tools/models.ts'
import { modelPayload } from '../tools/render.ts'
import { scriptedTurns, type ScriptedConversation } from './script.ts'
import { scriptedModel } from './scripted-model.ts'

const HISTORY: ModelMessage[] = [
  { role: 'user', content: 'Find Jo.' },
  {
    role: 'assistant',
    content: [
      { type: 'text', text: 'Looking.' },
      { type: 'tool-call', toolCallId: 'c1', toolName: 'crm_search_people', input: { q: 'Jo' } },
    ],
  },
  {
    role: 'tool',
    content: [
      {
        type: 'tool-result',
        toolCallId: 'c1',
        toolName: 'crm_search_people',
        output: { type: 'text', value: '{"ok":true}' },
      },
    ],
  },
]

describe('a script', () => {
  test('sees the conversation with parsed answers, by either name of a tool', async () => {
    let seen: ScriptedConversation | null = null
    const model = scriptedModel({
      name: 'story',
      next: (conversation) => {
        seen = conversation
        return { text: 'Done.' }
      },
    })
    const { text } = await generateText({ model, instructions: 'Be kind.', messages: HISTORY })
    expect(text).toBe('Done.')
    expect(seen).toMatchObject({
      instructions: 'Be kind.',
      input: 'Find Jo.',
      turns: [{ text: 'Looking.', calls: [{ tool: 'crm_search_people', args: { q: 'Jo' }, result: { ok: true } }] }],
    })
    expect(seen!.callsOf('crm.search_people')).toHaveLength(1)
    expect(seen!.callsOf('crm_search_people')).toHaveLength(1)
    expect(seen!.callsOf('toString')).toEqual([])
  })

  test('sees untrusted answers without their envelope, the same whatever its token is', async () => {
    const base = { data: ['a ⟧ b'], error: null, stop: null }
    const untrusted = { truncated: false, untrusted: true }
    const error = { code: 'conflict', message: 'taken', retryable: false } as const
    const answers: ToolResult[] = [
      { ...base, ok: true, meta: untrusted },
      { ...base, ok: true, meta: untrusted },
      { ...base, ok: false, error, meta: untrusted },
    ]
    const call = (id: string) => ({ type: 'tool-call' as const, toolCallId: id, toolName: 'web_search', input: {} })
    const result = (id: string, value: string) => ({
      type: 'tool-result' as const,
      toolCallId: id,
      toolName: 'web_search',
      output: { type: 'text' as const, value },
    })
    const messages: ModelMessage[] = [
      { role: 'user', content: 'Search.' },
      { role: 'assistant', content: answers.map((_, index) => call(`c${index}`)) },
      { role: 'tool', content: answers.map((value, index) => result(`c${index}`, modelPayload(value, 'web.search'))) },
    ]
    let seen: ScriptedConversation | null = null
    const next = (conversation: ScriptedConversation) => ({ text: (seen = conversation).input })
    await generateText({ model: scriptedModel({ name: 'story', next }), messages })
    expect(seen!.callsOf('web.search').map((made) => made.result)).toEqual([
      { ok: true, data: ['a ] b'] },
      { ok: true, data: ['a ] b'] },
      { ok: false, error },
    ])
  })

  test('starts afresh with the latest message of the user, and ids stay unique', async () => {
    const model = scriptedModel({ name: 'story', next: scriptedTurns([{ calls: [{ tool: 'email.send' }] }]) })
    const again: ModelMessage[] = [
      ...HISTORY,
      { role: 'assistant', content: 'Found.' },
      { role: 'user', content: 'Mail Jo.' },
    ]
    const { toolCalls } = await generateText({ model, messages: again })
    expect(toolCalls).toMatchObject([{ toolCallId: 'call_3_1', toolName: 'email_send' }])
  })

  test('that is a list ends with a clear error', async () => {
    const model = scriptedModel({ name: 'story', next: scriptedTurns([{ text: 'one' }]) })
    await expect(generateText({ model, messages: HISTORY, maxRetries: 0 })).rejects.toThrow(/has 1 turns/)
  })
})

describe('a scripted model', () => {
  const model = scriptedModel({ name: 'story', next: () => ({ text: 'A long enough text, with 👩‍👩‍👧 in it.' }) })

  test('streams in small chunks that add up, and says the same every time', async () => {
    const told: string[][] = []
    for (let time = 0; time < 2; time += 1) {
      const chunks: string[] = []
      for await (const chunk of streamText({ model, prompt: 'Tell.' }).textStream) chunks.push(chunk)
      told.push(chunks)
    }
    expect(told[0]!.length).toBeGreaterThan(1)
    expect(told[0]!.join('')).toBe('A long enough text, with 👩‍👩‍👧 in it.')
    expect(told[1]).toEqual(told[0])
  })

  test('reports tokens', async () => {
    const { usage } = await generateText({ model, prompt: 'Tell.' })
    expect(usage.inputTokens).toBeGreaterThan(0)
    expect(usage.outputTokens).toBeGreaterThan(0)
  })

  test('fails as often as it is told to, then goes on', async () => {
    const failing = scriptedModel({
      name: 'story',
      next: () => ({ text: 'ok', fail: new Error('down'), failTimes: 2 }),
    })
    const ask = () => generateText({ model: failing, prompt: 'Tell.', maxRetries: 0 })
    await expect(ask()).rejects.toThrow('down')
    await expect(ask()).rejects.toThrow('down')
    expect((await ask()).text).toBe('ok')
  })
})
