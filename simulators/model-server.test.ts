import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { generateText, jsonSchema, tool } from 'ai'
import { afterEach, describe, expect, test } from 'vitest'
import type { Script } from '../src/testing/script.ts'
import { startModelServer, type ModelServer, type ModelServerSettings } from './model-server.ts'

const servers: ModelServer[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function serve(settings: ModelServerSettings): Promise<ModelServer> {
  const server = await startModelServer(settings)
  servers.push(server)
  return server
}

function clients(server: ModelServer) {
  const openAi = createOpenAICompatible({ name: 'stand-in', baseURL: server.openAiBaseUrl })
  const anthropic = createAnthropic({ baseURL: server.anthropicBaseUrl, apiKey: 'test-key' })
  return { openai: openAi('llama-4'), anthropic: anthropic('claude-sonnet-4-5') }
}

const script: Script = (conversation) =>
  conversation.turns.length === 0
    ? { text: 'Looking.', calls: [{ tool: 'crm.search_people', args: { q: 'Jo' } }] }
    : { text: 'Found.' }

describe.each(['openai', 'anthropic'] as const)('the %s format', (wire) => {
  test('also answers whole, without a stream', async () => {
    const server = await serve({ next: script })
    const { text, toolCalls, usage } = await generateText({
      model: clients(server)[wire],
      prompt: 'Find Jo.',
      tools: {
        crm_search_people: tool({
          description: 'Finds people.',
          inputSchema: jsonSchema({ type: 'object', properties: { q: { type: 'string' } } }),
          outputSchema: jsonSchema({}),
        }),
      },
    })
    expect(text).toBe('Looking.')
    expect(toolCalls).toMatchObject([{ toolName: 'crm_search_people', input: { q: 'Jo' } }])
    expect(usage.inputTokens).toBeGreaterThan(0)
  })
})

const CALL = { id: 'c1', type: 'function', function: { name: 'a', arguments: '{}' } }
const USE = { type: 'tool_use', id: 'c1', name: 'a', input: {} }

describe('requests that the vendors refuse', () => {
  test.each<[string, unknown[]]>([
    [
      'an unanswered call',
      [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: null, tool_calls: [CALL] },
      ],
    ],
    [
      'an answer to nothing',
      [
        { role: 'user', content: 'Hi' },
        { role: 'tool', tool_call_id: 'c1', content: 'x' },
      ],
    ],
    [
      'a name no function may have',
      [{ role: 'assistant', tool_calls: [{ ...CALL, function: { name: 'a.b', arguments: '{}' } }] }],
    ],
    ['two calls of one id', [{ role: 'assistant', tool_calls: [CALL, CALL] }]],
    ['no message', []],
  ])('OpenAI: %s', async (_, messages) => {
    const server = await serve({ next: script })
    const response = await fetch(`${server.openAiBaseUrl}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'm', messages }),
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error' } })
    expect(server.requests).toMatchObject([{ status: 400, body: { messages } }])
  })

  test.each<[string, unknown[]]>([
    [
      'an unanswered call',
      [
        { role: 'user', content: 'Hi' },
        { role: 'assistant', content: [USE] },
      ],
    ],
    [
      'a call answered one message too late',
      [
        { role: 'assistant', content: [USE] },
        { role: 'user', content: 'Wait' },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'x' }] },
      ],
    ],
    ['arguments that are no object', [{ role: 'assistant', content: [{ ...USE, input: 'text' }] }]],
    ['an empty text', [{ role: 'user', content: [{ type: 'text', text: '' }] }]],
  ])('Anthropic: %s', async (_, messages) => {
    const server = await serve({ next: script })
    const response = await fetch(`${server.anthropicBaseUrl}/messages`, {
      method: 'POST',
      headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01' },
      body: JSON.stringify({ model: 'm', max_tokens: 10, messages }),
    })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ type: 'error', error: { type: 'invalid_request_error' } })
  })

  test('an unknown path and a missing key', async () => {
    const server = await serve({ next: script })
    expect((await fetch(`${server.openAiBaseUrl}/embeddings`, { method: 'POST' })).status).toBe(404)
    expect((await fetch(`${server.anthropicBaseUrl}/messages`, { method: 'POST', body: '{}' })).status).toBe(401)
  })
})
