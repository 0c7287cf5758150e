import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ConnectionState } from '../src/connections/connection.ts'
import type { Script } from '../src/testing/script.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ok } from '../src/tools/models.ts'
import { canarySecret } from './setup/canary-sweep.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const OPEN = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

const open = (options: Omit<WorldOptions, 'database'> = {}): Promise<World> =>
  world({ database: db.database, settings: OPEN, ...options })

const send = (w: World, invocation: ToolInvocation) =>
  inRun(w.core, invocation, () =>
    w.core.invoker.invoke({ toolName: 'email.send', args: { to: 'jo@acme.test' } }, invocation),
  )

/** Brings the organization's one mail account into a state. */
async function become(w: World, state: ConnectionState): Promise<void> {
  const { organizationId } = w
  const [account] = await w.core.stores.connections.list(organizationId, 'email')
  const outcome = await w.core.stores.connections.setState({ organizationId, connectionId: account!.id, state })
  expect(outcome.kind).toBe('changed')
}

async function claims(): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>({
    name: '',
    text: 'SELECT count(*)::int AS n FROM agent.idempotency_keys',
  })
  return rows[0]?.n ?? 0
}

describe('an account that cannot be used', () => {
  test.each([
    ['connection_expired', (w: World) => become(w, 'needs_reauth')],
    ['connection_revoked', (w: World) => become(w, 'revoked')],
    [
      'connection_ambiguous',
      async ({ core, organizationId }: World) => {
        await core.stores.connections.create({ organizationId, provider: 'email', label: 'second', settings: {} })
      },
    ],
  ])('T31 answers %s, reaches nobody and leaves no claim', async (code, arrange) => {
    const w = await open()
    await arrange(w)
    expect((await send(w, await w.invocation())).error).toMatchObject({ code, retryable: false })
    expect(w.effects.sent).toEqual([])
    expect(await claims()).toBe(0)
  })

  test('T31 the same call runs once the account is connected again', async () => {
    const w = await open()
    const invocation = await w.invocation()
    await become(w, 'needs_reauth')
    expect((await send(w, invocation)).error?.code).toBe('connection_expired')
    await become(w, 'connected')
    expect((await send(w, invocation)).ok).toBe(true)
    expect(w.effects.sent).toHaveLength(1)
  })
})

describe('a secret of a connection', () => {
  const SECRET = `${canarySecret('connection')}"b/c+d=e`

  /** A vendor that puts the key it was called with wherever it can. */
  const leaky = (behave: 'answers' | 'raises') =>
    vendorTool({
      name: 'mail.lookup',
      description: 'Look up a mailbox.',
      input: z.object({ to: z.string() }),
      output: z.object({ echo: z.string(), nested: z.array(z.record(z.string(), z.string())), api_key: z.string() }),
      sideEffects: 'read',
      connection: 'email',
      async handler(_invocation, { to }, { credential }) {
        const key = credential?.secrets['apiKey'] ?? 'none'
        if (behave === 'raises') throw new Error(`the vendor refused ${key} for ${to}`)
        const encoded = Buffer.from(key).toString('base64')
        return ok({ echo: `key=${key} (${encodeURIComponent(key)})`, nested: [{ [key]: encoded }], api_key: 'other' })
      },
    })

  const everything = async (): Promise<string> => {
    const { rows } = await db.database.query({
      name: '',
      text: `SELECT (SELECT json_agg(s) FROM agent.spans s) AS spans, (SELECT json_agg(p) FROM agent.span_payloads p) AS payloads,
        (SELECT json_agg(k) FROM agent.idempotency_keys k) AS journal, (SELECT json_agg(r) FROM agent.run_sessions r) AS sessions,
        (SELECT json_agg(r) FROM agent.runs r) AS runs, (SELECT json_agg(c) FROM agent.connections c) AS connections`,
    })
    return JSON.stringify(rows)
  }

  const forms = [SECRET, JSON.stringify(SECRET).slice(1, -1), encodeURIComponent(SECRET)].concat(
    Buffer.from(SECRET).toString('base64'),
  )

  test('T36 R37 is in no answer a model reads, in no span and in no row, however the vendor writes it', async () => {
    const seen: string[] = []
    const script: Script = (conversation) => {
      seen.push(JSON.stringify(conversation))
      const lookup = { tool: 'mail.lookup', args: { to: 'jo@acme.test' } }
      return conversation.turns.length === 0 ? { calls: [lookup] } : { text: 'done' }
    }
    const w = await open({
      script,
      extraTools: [leaky('answers')],
      secrets: { read: async () => ({ apiKey: SECRET }) },
    })
    const run = await w.start()
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('completed')
    await w.core.ledger.flush()
    const kept = await everything()
    expect(seen.join()).toContain('[redacted]')
    expect(kept).toContain('mail.lookup')
    for (const form of forms) {
      expect(seen.join()).not.toContain(form)
      expect(kept).not.toContain(form)
    }
  })

  test('T36 stays in the exception it was raised with: no row of the run has it', async () => {
    const w = await open({
      script: () => ({ calls: [{ tool: 'mail.lookup', args: { to: 'jo@acme.test' } }] }),
      extraTools: [leaky('raises')],
      secrets: { read: async () => ({ apiKey: SECRET }) },
    })
    await w.start()
    await w.engine.settle()
    const kept = await everything()
    expect(kept).toContain('mail.lookup')
    for (const form of forms) expect(kept).not.toContain(form)
  })
})

test('R37 a connection is connected, needs attention or is revoked, and revoked is the end of it', async () => {
  const w = await open()
  const { organizationId } = w
  const [account] = await w.core.stores.connections.list(organizationId, 'email')
  const change = (state: ConnectionState) =>
    w.core.stores.connections.setState({ organizationId, connectionId: account!.id, state })
  expect(await change('needs_reauth')).toMatchObject({ kind: 'changed', connection: { state: 'needs_reauth' } })
  expect(await change('connected')).toMatchObject({ kind: 'changed', connection: { state: 'connected' } })
  expect(await change('revoked')).toMatchObject({ kind: 'changed', connection: { state: 'revoked' } })
  expect(await change('connected')).toEqual({ kind: 'refused', state: 'revoked' })
  expect(await change('needs_reauth')).toEqual({ kind: 'refused', state: 'revoked' })
  const stored = w.core.stores.connections.create({ organizationId, provider: 'email', label: 'x', settings: {} })
  expect(Object.keys((await stored).connection).toSorted()).toEqual([
    'account',
    'auth',
    'changedAt',
    'changedBy',
    'createdAt',
    'expiresAt',
    'id',
    'label',
    'organizationId',
    'provider',
    'reauthReason',
    'scope',
    'settings',
    'state',
  ])
})
