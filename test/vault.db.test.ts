import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ConnectionProvider } from '../src/connections/provider.ts'
import type { Script } from '../src/testing/script.ts'
import { unnamed } from '../src/storage/statement.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import { ConnectionError, UpstreamUnavailableError, ValidationError } from '../src/tools/errors.ts'
import type { Logger } from '../src/tools/invoker.ts'
import { ok } from '../src/tools/models.ts'
import { canarySecret } from './setup/canary-sweep.ts'
import { findCanaries, searchedColumns } from './setup/canary.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, STARTER, world, type World } from './setup/world.ts'

const SECRET = `${canarySecret('vault')}"b/c+d=e&ü`
const VAULT = { key: randomBytes(32).toString('base64') }
const OPEN = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const
const MAILBOX: ConnectionProvider = {
  name: 'mailbox',
  title: 'Mailbox',
  auth: { kind: 'secret', fields: [{ name: 'apiKey', title: 'API key' }] },
}

type Behaviour = 'answers' | 'invalid' | 'unavailable' | 'expired' | 'raises'

/** A vendor that puts the key it was called with wherever it can. */
const lookup = vendorTool({
  name: 'mailbox.lookup',
  description: 'Look up a mailbox.',
  input: z.object({ how: z.enum(['answers', 'invalid', 'unavailable', 'expired', 'raises']) }),
  output: z.object({ echo: z.string(), nested: z.array(z.record(z.string(), z.string())) }),
  sideEffects: 'write',
  repeatable: false,
  connection: 'mailbox',
  async handler(_invocation, { how }, { credential }) {
    const key = credential?.secrets['apiKey'] ?? 'none'
    const said = `the vendor says ${key}, also ${encodeURIComponent(key)} and ${Buffer.from(`jo:${key}`).toString('base64')}`
    switch (how) {
      case 'answers':
        return ok({ echo: said, nested: [{ [key]: JSON.stringify({ key }) }] })
      case 'invalid':
        throw new ValidationError(said)
      case 'unavailable':
        throw new UpstreamUnavailableError(said)
      case 'expired':
        throw new ConnectionError('connection_expired', said)
      case 'raises':
        throw new Error(said)
    }
  },
})

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

interface Lines {
  readonly logger: Logger
  readonly lines: string[]
}

function lines(): Lines {
  const kept: string[] = []
  const line = (message: string, fields?: object): void => void kept.push(`${message} ${inspect(fields, { depth: 9 })}`)
  return { lines: kept, logger: { info: line, warn: line, error: line } }
}

async function connected(
  options: { script?: Script; logger?: Logger } = {},
): Promise<World & { connectionId: string }> {
  const w = await world({
    database: db.database,
    settings: OPEN,
    extraTools: [lookup],
    providers: [MAILBOX],
    vault: VAULT,
    ...options,
  })
  const outcome = await w.core.connections.connect({
    organizationId: w.organizationId,
    provider: 'mailbox',
    label: 'sales',
    settings: {},
    secrets: { apiKey: SECRET },
    by: STARTER,
  })
  if (outcome.kind !== 'connected') throw new Error(`the connection was ${outcome.kind}`)
  return { ...w, connectionId: outcome.connection.id }
}

const call = async (w: World, how: Behaviour) => {
  const invocation = await w.invocation()
  return inRun(w.core, invocation, () =>
    w.core.invoker.invoke({ toolName: 'mailbox.lookup', args: { how } }, invocation),
  )
}

describe('T36 R37 a secret in the vault', () => {
  test.each<[Behaviour, string]>([
    ['answers', 'completed'],
    ['invalid', 'completed'],
    ['unavailable', 'completed'],
    ['expired', 'completed'],
    ['raises', 'failed'],
  ])(
    'is in no row, no log line and no conversation of a run, whatever the vendor does with it: %s',
    async (how, status) => {
      const seen: string[] = []
      const { lines: logged, logger } = lines()
      const script: Script = (conversation) => {
        seen.push(JSON.stringify(conversation))
        return conversation.turns.length === 0
          ? { calls: [{ tool: 'mailbox.lookup', args: { how } }] }
          : { text: 'done' }
      }
      const w = await connected({ script, logger })
      const run = await w.start()
      for (let round = 0; round < 4; round += 1) {
        await w.engine.settle()
        await db.admin.execute(`UPDATE agent.runs SET wake_at = now() WHERE status = 'queued'`)
        await w.engine.sweep()
      }
      await w.core.ledger.flush()
      expect((await w.run(run.id)).status).toBe(status)
      const { rows } = await db.database.query<{ n: number }>(
        unnamed(`SELECT count(*)::int AS n FROM agent.spans WHERE name = 'mailbox.lookup'`),
      )
      expect(rows[0]?.n).toBeGreaterThan(0)
      expect(await findCanaries(db.admin, { secrets: [SECRET], texts: [...seen, ...logged] })).toEqual([])
    },
  )

  test('would be found by that search, in every form and every kind of column', async () => {
    const w = await connected()
    expect(await findCanaries(db.admin, { secrets: [SECRET] })).toEqual([])
    const columns = await searchedColumns(db.admin)
    expect(columns).toEqual(
      expect.arrayContaining(['agent.connection_secrets.sealed', 'agent.spans.attributes', 'public.people.title']),
    )
    const base64 = Buffer.from(SECRET).toString('base64')
    const change = w.core.database.kysely.updateTable('agent.connections').where('id', '=', w.connectionId)
    await change.set({ reauth_reason: encodeURIComponent(SECRET), settings: JSON.stringify({ a: SECRET }) }).execute()
    await db.admin.kysely
      .updateTable('agent.connection_secrets')
      .set({ sealed: Buffer.from(SECRET), wrapped_dek: Buffer.from(base64) })
      .execute()
    const shifted = Buffer.from(`user:${SECRET}`).toString('base64')
    const found = await findCanaries(db.admin, { secrets: [SECRET], texts: [`Basic ${shifted}`, 'nothing'] })
    expect(found).toEqual(
      expect.arrayContaining([
        { place: 'agent.connections.reauth_reason', form: 'URL-encoded' },
        { place: 'agent.connections.settings', form: 'JSON' },
        { place: 'agent.connection_secrets.sealed', form: 'latin-1' },
        { place: 'agent.connection_secrets.wrapped_dek', form: 'base64' },
        { place: 'text 0', form: 'base64, shifted by two' },
      ]),
    )
    expect(found.some(({ place }) => place === 'text 1')).toBe(false)
    // Or the next sweep finds them as well.
    await db.admin.execute('TRUNCATE agent.connections CASCADE')
  })
})

describe('a call with a connection from the vault', () => {
  test('R37 acts with its secret until the connection is revoked, and the secret is gone with it', async () => {
    const w = await connected()
    expect((await call(w, 'answers')).ok).toBe(true)
    await w.core.connections.revoke(w.organizationId, w.connectionId, STARTER)
    expect((await call(w, 'answers')).error?.code).toBe('connection_revoked')
    const { rows } = await db.admin.query(unnamed('SELECT field FROM agent.connection_secrets'))
    expect(rows).toEqual([])
  })

  test('T31 whose provider refused the secret is told so from then on, until a person connects it again', async () => {
    const w = await connected()
    const { organizationId, connectionId } = w
    expect((await call(w, 'expired')).error?.code).toBe('connection_expired')
    expect(await w.core.connections.get(organizationId, connectionId)).toMatchObject({ state: 'needs_reauth' })
    expect((await call(w, 'answers')).error?.code).toBe('connection_expired')
    const secrets = { apiKey: 'another key' }
    await w.core.connections.reconnect({ organizationId, connectionId, secrets, by: STARTER })
    expect((await call(w, 'answers')).ok).toBe(true)
  })

  test('T31 whose secrets are gone is refused rather than made without them', async () => {
    const w = await connected()
    await db.admin.execute('DELETE FROM agent.connection_secrets')
    expect((await call(w, 'answers')).error?.code).toBe('connection_expired')
  })

  test('whose secret was tampered with is a fault that names nothing of it', async () => {
    const w = await connected()
    await db.admin.execute(`UPDATE agent.connection_secrets SET sealed = sealed || '\\x00'`)
    const error = await call(w, 'answers').catch((raised: unknown) => raised)
    expect(error).toMatchObject({ name: 'VaultFault', reason: 'tampered' })
    expect(inspect(error, { depth: 9 })).not.toContain(VAULT.key)
  })

  test('a late refusal cannot revive a connection that was revoked', async () => {
    const w = await connected()
    await w.core.connections.revoke(w.organizationId, w.connectionId, STARTER)
    expect(await w.core.connections.markNeedsReauth(w.organizationId, w.connectionId, 'late')).toBe(false)
    expect(await w.core.connections.get(w.organizationId, w.connectionId)).toMatchObject({ state: 'revoked' })
  })
})
