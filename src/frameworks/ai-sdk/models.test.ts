import { afterEach, describe, expect, test, vi } from 'vitest'
import { startModelServer, type ModelServer, type ModelServerSettings } from '../../../simulators/model-server.ts'
import {
  advance,
  answer,
  contract,
  endOf,
  openSession,
  proposalsOf,
  refusal,
  restarted,
  results,
  START,
  textOf,
  type OpenOptions,
} from '../../../test/ai-sdk-session.ts'
import type { AgentSession } from '../../runs/session.ts'
import type { Script, ScriptedConversation } from '../../testing/script.ts'
import { scriptedModel } from '../../testing/scripted-model.ts'
import type { JsonObject } from '../../tools/json.ts'
import { modelProvider } from './model-types.ts'
import { loadProvider, resolveModel } from './models.ts'

const servers: ModelServer[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function serve(settings: ModelServerSettings): Promise<ModelServer> {
  const server = await startModelServer(settings)
  servers.push(server)
  return server
}

/** The two wire formats, each through the provider package that speaks it in production. */
const WIRES = [
  ['openai-compatible/llama-4', (server: ModelServer) => server.openAiBaseUrl],
  ['anthropic/claude-sonnet-4-5', (server: ModelServer) => server.anthropicBaseUrl],
] as const

type Wire = (typeof WIRES)[number]

async function connect([name, baseUrlOf]: Wire, settings: ModelServerSettings, options: Partial<OpenOptions> = {}) {
  const server = await serve(settings)
  const model = await resolveModel(name, { apiKey: 'test-key', baseURL: baseUrlOf(server) })
  const opened: OpenOptions = { model, modelName: name, ...options }
  return { server, opened, session: openSession(opened) }
}

/** Finds Jo, writes and sends in one turn, and reports what became of it. */
const invite: Script = (conversation) => {
  const found = conversation.callsOf('crm.search_people')
  if (found.length === 0)
    return { text: 'Let me look for Jo.', calls: [{ tool: 'crm.search_people', args: { q: 'Jo' } }] }
  const sent = conversation.callsOf('email.send')
  if (sent.length === 0) {
    const args = { to: 'jo@acme.test' }
    return {
      calls: [
        { tool: 'crm.upsert_person', args },
        { tool: 'email.send', args },
      ],
    }
  }
  return { text: sent[0]?.answer?.includes('denied') === true ? 'The mail was refused.' : 'Jo is invited. 🎉' }
}

describe.each(WIRES)('a whole conversation with %s', (...wire) => {
  const [name] = wire

  test('T66 streams, reads in the loop, pauses on both writes under their dotted names, and goes on with the results', async () => {
    const { session, server } = await connect(
      wire,
      { next: invite },
      { callRead: () => Promise.resolve(answer([{ name: 'Jo' }])) },
    )
    const first = await advance(session, START)
    expect(textOf(first)).toBe('Let me look for Jo.')
    const proposals = proposalsOf(first)
    expect(proposals.map(({ toolName, args }) => [toolName, args])).toEqual([
      ['crm.upsert_person', { to: 'jo@acme.test' }],
      ['email.send', { to: 'jo@acme.test' }],
    ])

    const last = await advance(session, results(proposals, answer({ effect: 'recorded' })))
    expect(endOf(last)).toEqual({ kind: 'finished', text: 'Jo is invited. 🎉' })
    expect(last.find((event) => event.type === 'turn-end')).toMatchObject({
      usage: { provider: modelProvider(name), inputTokens: expect.any(Number), outputTokens: expect.any(Number) },
    })
    expect(server.requests.map((request) => request.status)).toEqual([200, 200, 200])
    expect(JSON.stringify(server.requests[0]?.body)).toContain('email_send')
    for (const { body } of server.requests) expect(JSON.stringify(body)).not.toContain('email.send')
    expect(JSON.stringify(server.requests[2]?.body)).toContain('recorded')
  })

  test('goes on in another process from the saved state', async () => {
    const { session, opened } = await connect(wire, { next: invite })
    const proposals = proposalsOf(await advance(session, START))
    const next: AgentSession = restarted(session, opened)
    expect(endOf(await advance(next, results(proposals, refusal('denied', 'not now'))))).toEqual({
      kind: 'finished',
      text: 'The mail was refused.',
    })
  })

  test('survives calls that no provider would take back: unknown names, broken arguments, repeated ids', async () => {
    let last: ScriptedConversation | null = null
    const { session, server } = await connect(wire, {
      next: (conversation) => {
        last = conversation
        if (conversation.turns.length > 0) return { text: 'I see.' }
        return {
          calls: [
            { tool: 'no such tool', args: { a: 1 }, id: 'dup' },
            { tool: 'email.send', rawArgs: '{"to": "jo', id: 'dup' },
            { tool: 'email.send', args: [1, 2], id: 'dup' },
          ],
        }
      },
    })
    const proposals = proposalsOf(await advance(session, START))
    expect(proposals.map((proposal) => proposal.toolName)).toEqual(['no such tool', 'email.send', 'email.send'])
    expect(endOf(await advance(session, results(proposals, refusal('invalid_input', 'no'))))).toMatchObject({
      kind: 'finished',
    })
    expect(server.requests.map((request) => request.status)).toEqual([200, 200])
    expect(last).toMatchObject({
      turns: [
        {
          calls: [
            { id: 'dup' },
            { id: expect.not.stringMatching(/^dup$/) },
            { id: expect.not.stringMatching(/^dup$/) },
          ],
        },
      ],
    })
  })

  test('a failure of the provider never reaches the model, and another try goes on from the saved state', async () => {
    const { session, opened, server } = await connect(wire, {
      next: (conversation) =>
        conversation.turns.length === 0
          ? { calls: [{ tool: 'crm.search_people' }] }
          : { text: 'Done.', fail: new Error('upstream 10.0.0.7 overloaded'), failTimes: 1 },
    })
    await expect(advance(session, START)).rejects.toThrow(/overloaded/)
    expect(JSON.stringify(session.save())).not.toContain('10.0.0.7')
    const next = restarted(session, opened)
    expect(endOf(await advance(next, { kind: 'continue' }))).toEqual({ kind: 'finished', text: 'Done.' })
    expect(JSON.stringify(server.requests.at(-1)?.body)).not.toContain('10.0.0.7')
  })

  test('a failure before the stream rejects with the status the provider gave', async () => {
    const { session } = await connect(wire, { next: () => ({ fail: new Error('bad key') }), failStatus: 401 })
    await expect(advance(session, START)).rejects.toMatchObject({ statusCode: 401 })
  })

  test('a schema with alternatives at its root is shown in a form the provider accepts', async () => {
    const union: JsonObject = {
      oneOf: [
        { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
        { type: 'object', properties: { email: { type: 'string' } }, required: ['email'] },
      ],
    }
    const contracts = [contract('crm.find', 'read', union)]
    const { session, server } = await connect(wire, { next: () => ({ text: 'Hello.' }) }, { contracts })
    expect(endOf(await advance(session, START)).kind).toBe('finished')
    expect(server.requests[0]?.status).toBe(200)
  })

  test('the stand-in refuses a dotted name, as the vendor does', async () => {
    const server = await serve({ next: () => ({ text: 'never said' }) })
    const anthropic = name.startsWith('anthropic')
    const schema = { type: 'object', properties: {} }
    const body = anthropic
      ? { max_tokens: 10, tools: [{ name: 'email.send', input_schema: schema }] }
      : { tools: [{ type: 'function', function: { name: 'email.send', parameters: schema } }] }
    const response = await fetch(`${wire[1](server)}/${anthropic ? 'messages' : 'chat/completions'}`, {
      method: 'POST',
      headers: { 'x-api-key': 'k', 'anthropic-version': '2023-06-01', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...body }),
    })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('does not match pattern')
  })
})

describe('the model of a run', () => {
  test('is opened with the given key, or with none', async () => {
    const server = await serve({ next: () => ({ text: 'Hello.' }) })
    const model = await resolveModel('openai-compatible/llama', { baseURL: server.openAiBaseUrl })
    await advance(openSession({ model }), START)
    expect(server.requests[0]?.headers.authorization).toBeUndefined()
    const keyed = await resolveModel('openai-compatible/llama', { baseURL: server.openAiBaseUrl, apiKey: 'k-1' })
    await advance(openSession({ model: keyed }), START)
    expect(server.requests[1]?.headers.authorization).toBe('Bearer k-1')
  })

  test('takes neither key nor address from the environment, where the provider packages look for them', async () => {
    vi.stubEnv('ANTHROPIC_API_KEY', 'key-of-the-environment')
    vi.stubEnv('ANTHROPIC_BASE_URL', 'http://127.0.0.1:1/v1')
    vi.stubEnv('OPENAI_API_KEY', 'key-of-the-environment')
    await expect(resolveModel('openai/gpt-5')).rejects.toThrow(/needs an API key/)
    const server = await serve({ next: () => ({ text: 'Hello.' }) })
    const model = await resolveModel('anthropic/claude-sonnet-4-5', { baseURL: server.anthropicBaseUrl })
    await advance(openSession({ model }), START)
    expect(server.requests[0]?.headers['x-api-key']).toBe('none')
  })

  test('is charged an estimate when its server reports no usage, so that a ceiling still binds', async () => {
    const server = await serve({ next: () => ({ text: 'A few words.' }), withoutUsage: true })
    const model = await resolveModel('openai-compatible/llama', { baseURL: server.openAiBaseUrl })
    const events = await advance(openSession({ model, modelName: 'openai-compatible/llama' }), START)
    const end = events.find((event) => event.type === 'turn-end')
    expect(end?.usage.inputTokens).toBeGreaterThan(0)
    expect(end?.usage.outputTokens).toBeGreaterThan(0)
  })

  test.each(['openai', 'anthropic', 'google'])(
    'of %s needs a key unless a server of its own is named',
    async (provider) => {
      await expect(resolveModel(`${provider}/some-model`)).rejects.toThrow(/needs an API key/)
      await expect(resolveModel(`${provider}/some-model`, { apiKey: '' })).rejects.toThrow(/needs an API key/)
      await expect(resolveModel(`${provider}/some-model`, { baseURL: 'http://127.0.0.1:1/v1' })).resolves.toMatchObject(
        {
          modelId: 'some-model',
        },
      )
      await expect(resolveModel(`${provider}/some-model`, { apiKey: 'k' })).resolves.toMatchObject({
        modelId: 'some-model',
      })
    },
  )

  test('of an unnamed server is refused, and so is an address that is no web address', async () => {
    await expect(resolveModel('openai-compatible/llama')).rejects.toThrow(/needs the base URL/)
    await expect(resolveModel('openai-compatible/llama', { baseURL: 'file:///etc/passwd' })).rejects.toThrow(/http/)
    await expect(resolveModel('openai-compatible/llama', { baseURL: 'llama' })).rejects.toThrow(/http/)
  })

  test.each(['mistral/large', 'gpt-5', 'openai/', '/gpt', 'constructor/x', '__proto__/x', 'openai', ''])(
    '%s is refused with the list of providers',
    async (name) => {
      await expect(resolveModel(name, { apiKey: 'k' })).rejects.toThrow(
        'openai/<model>, anthropic/<model>, google/<model>, openai-compatible/<model>',
      )
    },
  )

  test('may be the deployment’s own object, looked up by its own name only', async () => {
    const own = scriptedModel({ name: 'story', next: () => ({ text: 'Hello.' }) })
    const models = { 'scripted/story': own }
    expect(await resolveModel('scripted/story', { models })).toBe(own)
    await expect(resolveModel('toString', { models })).rejects.toThrow(/unknown model .* scripted\/story/)
  })

  test('names its provider for usage rows', () => {
    expect(modelProvider('openai/gpt-5')).toBe('openai')
    expect(modelProvider('openai-compatible/meta/llama')).toBe('openai-compatible')
    expect(modelProvider('scripted')).toBe('scripted')
    expect(modelProvider('/odd')).toBe('/odd')
  })

  test('whose package is not installed says what to install', async () => {
    const missing = '@ai-sdk/not-installed-here'
    const load = () => import(missing) as Promise<unknown>
    await expect(loadProvider('mistral/large', missing, load)).rejects.toThrow(`npm install ${missing}`)
  })

  test('whose package fails for another reason says that reason', async () => {
    const load = () => Promise.reject(new Error('the package @ai-sdk/openai is broken'))
    await expect(loadProvider('openai/gpt-5', '@ai-sdk/openai', load)).rejects.toThrow('is broken')
  })
})
