import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import { admitted, callHandler, testRun } from '../../../test/handler-call.ts'
import { intelligenceStore } from '../../storage/intelligence-store.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import { ValidationError } from '../../tools/errors.ts'
import type { JsonObject } from '../../tools/json.ts'
import { buildRegistry } from '../../tools/registry.ts'
import { intelligenceTools } from './tools.ts'

let db: TestDatabase
let tools: ToolDeclaration[]
beforeAll(async () => {
  db = await testDatabase()
  tools = intelligenceTools({ store: intelligenceStore(db.database) })
})
beforeEach(() => db.database.execute('TRUNCATE public.intel_companies CASCADE'))
afterAll(() => db.close())

const FACT = {
  domain: 'https://www.ACME.test/',
  attribute: 'industry',
  value: 'Bearings',
  source: 'https://acme.test/about?utm=1#team',
}

function toolOf(name: string): ToolDeclaration {
  const tool = tools.find(({ spec }) => spec.name === `intel.${name}`)
  if (tool === undefined) throw new Error(`there is no ${name}`)
  return tool
}

const call = (name: string, args: JsonObject, run = testRun()) => callHandler(toolOf(name), { run, args })

test('both tools pass every check of the registry, and the one that writes carries its arguments out', async () => {
  const registry = await buildRegistry(tools)
  expect(registry.get('intel.search_companies')).toMatchObject({ sideEffects: 'read', egress: false, maxResults: 20 })
  expect(registry.get('intel.record_observation')).toMatchObject({
    sideEffects: 'write',
    egress: true,
    repeatable: false,
  })
})

describe('an observation', () => {
  test('of one organization is read by every other, and is untrusted to all', async () => {
    const run = testRun()
    expect((await call('record_observation', FACT, run)).data).toEqual({ domain: 'acme.test', created: true })
    for (const reader of [run, testRun()]) {
      const answer = await call('search_companies', { query: 'acme' }, reader)
      expect(answer.meta).toEqual({ untrusted: true })
      expect(answer.data).toEqual([
        {
          domain: 'acme.test',
          facts: [
            {
              attribute: 'industry',
              value: 'Bearings',
              source: 'https://acme.test/about',
              observedAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
            },
          ],
        },
      ])
    }
  })

  test('is one row for any spelling of the domain', async () => {
    await call('record_observation', FACT)
    for (const domain of ['acme.test', 'WWW.acme.test', 'http://acme.test/x']) {
      expect((await call('record_observation', { ...FACT, domain })).data).toEqual({
        domain: 'acme.test',
        created: false,
      })
    }
  })

  test.each<JsonObject>([
    { ...FACT, domain: 'acme' },
    { ...FACT, source: 'acme.test/about' },
    { ...FACT, source: 'https://intranet/wiki' },
    { ...FACT, source: 'https://jo:secret@acme.test/' },
  ])('R27 of %j is invalid input', async (args) => {
    const refused: unknown = await call('record_observation', args).catch((error: unknown) => error)
    expect((refused as Error).constructor).toBe(ValidationError)
    expect((await call('search_companies', { query: 'test' })).data).toEqual([])
  })

  test.each<JsonObject>([
    { ...FACT, attribute: 'owner' },
    { ...FACT, value: ' ' },
    { ...FACT, value: 'x'.repeat(1001) },
    { ...FACT, organization_id: 'x' },
  ])('of %j is refused before that', (args) => {
    expect(() => admitted(toolOf('record_observation'), args)).toThrow(/./)
  })
})

test('what nobody recorded is an empty answer, and is untrusted all the same', async () => {
  expect(await call('search_companies', { query: 'nobody' })).toMatchObject({ data: [], meta: { untrusted: true } })
})

test('a database fault raises as it is and never reads as an empty answer', async () => {
  const broken = intelligenceTools({
    store: intelligenceStore({ ...db.database, query: async () => Promise.reject(new Error('down')) }),
  })
  for (const { spec, ...rest } of broken) {
    const args = spec.sideEffects === 'read' ? { query: 'acme' } : FACT
    await expect(callHandler({ spec, ...rest }, { run: testRun(), args })).rejects.toThrow('down')
  }
})
