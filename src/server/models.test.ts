import { expect, test } from 'vitest'
import { scriptedModel } from '../testing/index.ts'
import { isScripted, modelFinder } from './models.ts'
import { readSettings } from './settings.ts'

async function refusal(environment: Record<string, string>, name: string): Promise<string> {
  return modelFinder(readSettings(environment))(name).then(
    () => '',
    (error: unknown) => (error instanceof Error ? error.message : ''),
  )
}

test.for([
  ['openai/x', 'OPENAI_API_KEY'],
  ['anthropic/x', 'ANTHROPIC_API_KEY'],
  ['google/x', 'GOOGLE_GENERATIVE_AI_API_KEY'],
  ['openai-compatible/x', 'BAILIFF_MODEL_BASE_URL'],
  ['nobody/x', 'BAILIFF_MODEL'],
] as const)('%s without what it needs names %s', async ([name, variable]) => {
  expect(await refusal({ BAILIFF_MODEL: name }, name)).toContain(variable)
})

test('a provider’s own key or the general one opens its model', async () => {
  expect(await refusal({ BAILIFF_MODEL: 'openai/x', OPENAI_API_KEY: 'k' }, 'openai/x')).toBe('')
  expect(await refusal({ BAILIFF_MODEL: 'anthropic/x', BAILIFF_MODEL_API_KEY: 'k' }, 'anthropic/x')).toBe('')
})

test('the base URL and the general key are for the provider they were given for', async () => {
  const environment = {
    BAILIFF_MODEL: 'openai-compatible/x',
    BAILIFF_MODEL_BASE_URL: 'http://127.0.0.1:1/v1',
    BAILIFF_MODEL_API_KEY: 'k',
  }
  expect(await refusal(environment, 'openai-compatible/y')).toBe('')
  // With the base URL, a local server that asks for no key would be assumed, and a key be sent there.
  expect(await refusal(environment, 'openai/x')).toContain('OPENAI_API_KEY')
})

test('a model of the deployment is found by its name', async () => {
  const model = scriptedModel({ name: 'scripted/notes', next: () => ({ text: '' }) })
  expect(await modelFinder(readSettings({}), { 'scripted/notes': model })('scripted/notes')).toBe(model)
  expect(isScripted('scripted/notes')).toBe(true)
  expect(isScripted('openai/scripted')).toBe(false)
})
