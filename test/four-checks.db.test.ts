import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { crmTools, scopedPeople } from '../src/handlers/crm/index.ts'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import { scopedDb } from '../src/storage/scoped-db.ts'
import { internalTool, vendorTool } from '../src/tools/declarations.ts'
import {
  ERROR_CODES,
  NotFoundError,
  OutcomeUnknownError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
} from '../src/tools/errors.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired } from '../src/tools/invoker.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const open = (options: Partial<WorldOptions> = {}): Promise<World> => world({ database: db.database, ...options })

const call = (w: World, invocation: ToolInvocation, [toolName, args]: readonly [string, JsonValue]) =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName, args }, invocation))

const count = async (table: string): Promise<number> => {
  const { rows } = await db.database.query<{ n: number }>({ name: '', text: `SELECT count(*)::int AS n FROM ${table}` })
  return rows[0]?.n ?? 0
}

describe('R04 four checks, each on its own', () => {
  const note = ['crm.note', { text: 'hi' }] as const

  test('what a run was not shown is unavailable to it, whatever it may do', async () => {
    const w = await open()
    const invocation = await w.invocation(['crm.search'])
    expect(invocation.principal.scopes).toContain('crm.note')
    expect((await call(w, invocation, note)).error?.code).toBe('tool_unavailable')
  })

  test('what it was shown and may not do is denied', async () => {
    const w = await open()
    const invocation = await w.invocation()
    const narrowed = { ...invocation, principal: { ...invocation.principal, scopes: [] } }
    expect((await call(w, narrowed, note)).error?.code).toBe('denied')
  })

  test('what it may do and makes no sense is refused by the business', async () => {
    const rename = internalTool({
      name: 'crm.rename',
      description: 'Rename somebody.',
      input: z.object({ id: z.string() }),
      output: z.object({}),
      sideEffects: 'write',
      repeatable: false,
      handler: async () => {
        throw new NotFoundError('nobody has this id')
      },
    })
    const w = await open({ extraTools: [rename] })
    const invocation = await w.invocation()
    expect((await call(w, invocation, ['crm.rename', { id: '7' }])).error?.code).toBe('not_found')
  })

  test('what belongs to somebody else does not exist', async () => {
    const people = scopedPeople((organizationId) => scopedDb(db.database, organizationId))
    const extraTools = crmTools({ people })
    const acme = await open({ extraTools })
    const rival = await open({ extraTools, slug: 'rival', database: db.admin })
    const jo = { name: 'Jo', email: 'jo@acme.test' }
    expect(await call(acme, await acme.invocation(), ['crm.upsert_person', jo])).toMatchObject({ ok: true })
    const search = ['crm.search_people', { query: 'Jo' }] as const
    expect(await call(acme, await acme.invocation(), search)).toMatchObject({ ok: true, data: [{ name: 'Jo' }] })
    expect(await call(rival, await rival.invocation(), search)).toMatchObject({ ok: true, data: [] })
  })
})

test('R32 a repeat that is meant carries an argument that tells it apart', async () => {
  const remind = internalTool({
    name: 'crm.remind',
    description: 'Remind somebody.',
    input: z.object({ who: z.string(), occurrence: z.int().min(1).default(1) }),
    output: z.object({ reminders: z.int() }),
    sideEffects: 'write',
    repeatable: false,
    handler: async () => ok({ reminders: ++reminders }),
  })
  let reminders = 0
  const w = await open({ extraTools: [remind] })
  const invocation = await w.invocation()
  const data = async (args: JsonValue) => (await call(w, invocation, ['crm.remind', args])).data
  expect(await data({ who: 'jo' })).toEqual({ reminders: 1 })
  // The default written out is the same call.
  expect(await data({ who: 'jo', occurrence: 1 })).toEqual({ reminders: 1 })
  expect(await data({ who: 'jo', occurrence: 2 })).toEqual({ reminders: 2 })
  expect(reminders).toBe(2)
})

test('R40 a preview runs on a call nobody has allowed: no claim, no credential, and a mistake of it costs only the line', async () => {
  const seen: { readonly given: number; readonly claims: number }[] = []
  const shown = internalTool({
    name: 'crm.merge',
    description: 'Merge two people.',
    input: z.object({ from: z.string(), into: z.string() }),
    output: z.object({}),
    sideEffects: 'write',
    repeatable: false,
    handler: {
      execute: async () => ok({}),
      async preview(...given) {
        seen.push({ given: given.length, claims: await count('agent.idempotency_keys') })
        const [invocation, { from, into }, signal] = given
        expect(Object.keys(invocation)).not.toContain('credential')
        expect(signal.aborted).toBe(false)
        if (from === into) throw new Error('nothing to merge')
        return `Merge ${from} into ${into}`
      },
    },
  })
  const w = await open({
    extraTools: [shown],
    rules: [{ name: 'ask', tools: ['crm.merge'], effect: 'require_approval' }],
  })
  const invocation = await w.invocation()
  await expect(call(w, invocation, ['crm.merge', { from: 'a', into: 'b' }])).rejects.toBeInstanceOf(ApprovalRequired)
  await expect(call(w, invocation, ['crm.merge', { from: 'a', into: 'a' }])).rejects.toBeInstanceOf(ApprovalRequired)
  expect(seen).toEqual([
    { given: 3, claims: 0 },
    { given: 3, claims: 0 },
  ])
  const { items } = await w.core.approvals.list(w.organizationId)
  expect(new Set(items.map((item) => item.preview))).toEqual(new Set(['Merge a into b', null]))
  expect(items.every((item) => item.state === 'pending')).toBe(true)
})

describe('a failure a vendor handler raises', () => {
  test.each([
    ['retryable_upstream', () => new RetryableUpstreamError('429 from 10.0.0.5')],
    ['unavailable', () => new UpstreamUnavailableError('no such host 10.0.0.5')],
    ['timeout', () => new OutcomeUnknownError('lost at 10.0.0.5')],
    ['invalid_input', () => new ValidationError('an address has an @')],
  ] as const)('T42 R28 is given the code %s, and whether to retry, by the invoker', async (code, raise) => {
    const tool = vendorTool({
      name: 'mail.verify',
      description: 'Verify an address.',
      input: z.object({ email: z.string() }),
      output: z.object({}),
      sideEffects: 'write',
      repeatable: false,
      handler: async () => {
        throw raise()
      },
    })
    const w = await open({ extraTools: [tool] })
    const result = await call(w, await w.invocation(), ['mail.verify', { email: 'jo' }])
    expect(result.error).toMatchObject({ code, retryable: ERROR_CODES[code].retryable })
    expect(result.error?.message).not.toContain('10.0.0.5')
  })
})

test('R53 a definition brings no code: a tool that this deployment does not declare is refused when it is published', async () => {
  const w = await open()
  const definition = {
    slug: 'own-code',
    instructions: '',
    tools: ['crm.search', 'acme.own_code'],
    model: null,
    ceilings: DEFAULT_CEILINGS,
  }
  await expect(w.runtime.runs.publish(w.organizationId, definition, STARTER)).rejects.toThrow('acme.own_code')
})
