import { afterAll, describe, expect, test } from 'vitest'
import { startModelServer, type ModelServer } from '../../../simulators/model-server.ts'
import { scriptedModel } from '../../testing/scripted-model.ts'
import { sessionSuite, type SessionFactory } from '../../testing/session-suite.ts'
import { resolveModel } from './models.ts'
import { aiSdkFramework } from './session.ts'

const servers: ModelServer[] = []
afterAll(async () => {
  await Promise.all(servers.map((server) => server.close()))
})

const scripted: SessionFactory = (script) => {
  const model = scriptedModel({ name: 'story', next: script })
  return aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })
}

/** The same script behind the wire format of a provider, through the package that speaks it in production. */
const overTheWire =
  (name: string, baseUrlOf: (server: ModelServer) => string): SessionFactory =>
  (script) =>
    aiSdkFramework({
      maxRetries: 0,
      async resolveModel() {
        const server = await startModelServer({ next: script })
        servers.push(server)
        return resolveModel(name, { apiKey: 'test-key', baseURL: baseUrlOf(server) })
      },
    })

describe.each<[string, SessionFactory]>([
  ['a model in the process', scripted],
  ['the wire format of OpenAI', overTheWire('openai-compatible/llama-4', (server) => server.openAiBaseUrl)],
  ['the wire format of Anthropic', overTheWire('anthropic/claude-sonnet-4-5', (server) => server.anthropicBaseUrl)],
])('a session of the AI SDK on %s', (_, make) => {
  for (const { name, run } of sessionSuite) {
    test(name, async () => {
      await expect(run(make)).resolves.toBeUndefined()
    })
  }
})
