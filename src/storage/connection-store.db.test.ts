import { v7 as uuidv7 } from 'uuid'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import type { ConnectionState } from '../connections/connection.ts'
import { type ConnectionAdministration, connectionStore, type NewConnection } from './connection-store.ts'

let db: TestDatabase
let store: ConnectionAdministration
beforeAll(async () => {
  db = await testDatabase()
  store = connectionStore(db.database)
})
afterAll(() => db.close())

async function organization(): Promise<string> {
  const id = uuidv7()
  await db.database.kysely.insertInto('agent.organizations').values({ id, slug: id, name: 'Test' }).execute()
  return id
}

const ADA = { kind: 'user', id: 'u1', name: 'Ada' } as const

async function mailbox(part: Partial<NewConnection> = {}) {
  const organizationId = part.organizationId ?? (await organization())
  const wanted = { provider: 'email', label: 'sales', settings: { host: 'mail.test' }, ...part, organizationId }
  return { organizationId, outcome: await store.create(wanted) }
}

test('a new connection is connected and listed with its public settings', async () => {
  const { organizationId, outcome } = await mailbox()
  expect(outcome).toMatchObject({ kind: 'created' })
  expect(await store.list(organizationId, 'email')).toMatchObject([
    {
      id: outcome.connection.id,
      organizationId,
      provider: 'email',
      label: 'sales',
      state: 'connected',
      settings: { host: 'mail.test' },
      auth: 'external',
      reauthReason: null,
      changedBy: null,
    },
  ])
})

test('a list holds one provider of one organization, by label', async () => {
  const { organizationId } = await mailbox({ label: 'b' })
  await mailbox({ organizationId, label: 'a' })
  await mailbox({ organizationId, provider: 'calendar' })
  await mailbox()
  expect((await store.list(organizationId, 'email')).map(({ label }) => label)).toEqual(['a', 'b'])
  expect(await store.list(uuidv7(), 'email')).toEqual([])
})

test('a label is taken once, and whoever comes second is shown what has it', async () => {
  const { organizationId, outcome } = await mailbox()
  const again = await mailbox({ organizationId, settings: { host: 'other.test' } })
  expect(again.outcome).toEqual({ kind: 'label_taken', connection: outcome.connection })
  const racers = await Promise.all([1, 2, 3, 4].map(() => mailbox({ organizationId, label: 'raced' })))
  expect(racers.filter(({ outcome: { kind } }) => kind === 'created')).toHaveLength(1)
  expect(new Set(racers.map(({ outcome: { connection } }) => connection.id))).toHaveLength(1)
})

test('what a deployment ensures exists afterwards with its settings, and in the state it had', async () => {
  const organizationId = await organization()
  const wanted = { organizationId, provider: 'email', label: 'sales', settings: { host: 'one.test' } }
  const made = await store.ensure(wanted)
  expect(made).toMatchObject({ state: 'connected', settings: { host: 'one.test' } })
  await store.setState({ organizationId, connectionId: made.id, state: 'needs_reauth' })
  const moved = await store.ensure({ ...wanted, settings: { host: 'two.test' } })
  expect(moved).toMatchObject({ id: made.id, state: 'needs_reauth', settings: { host: 'two.test' } })
})

test('people and deployments that make one label at once get one connection, and nobody waits for ever', async () => {
  const organizationId = await organization()
  const labels = Array.from({ length: 12 }, (_, n) => `box ${n % 3}`)
  const made = await Promise.all(
    labels.map(async (label, n) => {
      const wanted = { organizationId, provider: 'email', label, settings: { n: String(n) } }
      return n % 2 === 0 ? (await store.create(wanted)).connection : store.ensure(wanted)
    }),
  )
  expect(new Set(made.map(({ id }) => id)).size).toBe(3)
  expect(await store.list(organizationId, 'email')).toHaveLength(3)
})

describe('a connection that a person revoked', () => {
  test('is not brought back by what a deployment ensures', async () => {
    const organizationId = await organization()
    const wanted = { organizationId, provider: 'email', label: 'sales', settings: { host: 'one.test' } }
    const made = await store.ensure(wanted)
    await store.setState({ organizationId, connectionId: made.id, state: 'revoked', by: ADA })
    expect(await store.ensure({ ...wanted, settings: { host: 'two.test' } })).toMatchObject({
      id: made.id,
      state: 'revoked',
      settings: { host: 'one.test' },
    })
    expect(await store.list(organizationId, 'email')).toMatchObject([{ id: made.id, state: 'revoked', changedBy: ADA }])
  })

  test('gives its label back, and a deployment ensures the one that has it now', async () => {
    const { organizationId, outcome } = await mailbox()
    await store.setState({ organizationId, connectionId: outcome.connection.id, state: 'revoked' })
    const again = await mailbox({ organizationId })
    expect(again.outcome.kind).toBe('created')
    const wanted = { organizationId, provider: 'email', label: 'sales', settings: { host: 'two.test' } }
    expect(await store.ensure(wanted)).toMatchObject({ id: again.outcome.connection.id, settings: wanted.settings })
    expect((await mailbox({ organizationId })).outcome.kind).toBe('label_taken')
  })
})

describe('states', () => {
  test.each<[ConnectionState, ConnectionState, 'changed' | 'refused']>([
    ['connected', 'needs_reauth', 'changed'],
    ['connected', 'revoked', 'changed'],
    ['needs_reauth', 'connected', 'changed'],
    ['needs_reauth', 'revoked', 'changed'],
    ['revoked', 'connected', 'refused'],
    ['revoked', 'needs_reauth', 'refused'],
    ['revoked', 'revoked', 'changed'],
  ])('from %s to %s: %s', async (from, to, kind) => {
    const { organizationId, outcome } = await mailbox()
    const connectionId = outcome.connection.id
    await store.setState({ organizationId, connectionId, state: from })
    expect(await store.setState({ organizationId, connectionId, state: to })).toMatchObject({ kind })
    const [found] = await store.list(organizationId, 'email')
    expect(found?.state).toBe(kind === 'changed' ? to : from)
  })

  test('a connection of another organization is not found and not changed', async () => {
    const { organizationId, outcome } = await mailbox()
    const connectionId = outcome.connection.id
    const foreign = { organizationId: await organization(), connectionId, state: 'revoked' as const }
    expect(await store.setState(foreign)).toEqual({ kind: 'not_found' })
    expect(await store.list(organizationId, 'email')).toMatchObject([{ state: 'connected' }])
  })

  test('an id that is no id is not found', async () => {
    const change = { organizationId: await organization(), connectionId: "'; --", state: 'revoked' as const }
    expect(await store.setState(change)).toEqual({ kind: 'not_found' })
  })
})

test('settings edited by hand into something else than text are left out', async () => {
  const { organizationId } = await mailbox({ settings: { host: 'mail.test' } })
  await db.database.kysely
    .updateTable('agent.connections')
    .set({ settings: JSON.stringify({ host: 'mail.test', port: 25, nested: {} }) })
    .where('organization_id', '=', organizationId)
    .execute()
  expect(await store.list(organizationId, 'email')).toMatchObject([{ settings: { host: 'mail.test' } }])
})
