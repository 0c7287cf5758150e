import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { ConnectionState } from '../src/connections/connection.ts'
import type { Script } from '../src/testing/script.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { ConnectionError } from '../src/tools/errors.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, inRun, world, type World } from './setup/world.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

/** Accounts that were used, by their label. */
const used: string[] = []
/** What the provider says to the next calls. */
const refusals: Error[] = []
beforeEach(() => {
  used.length = 0
  refusals.length = 0
})

const post = internalTool({
  name: 'letters.post',
  description: 'Posts a letter.',
  input: z.object({ text: z.string(), connection_id: z.uuid().optional() }),
  output: z.object({}),
  sideEffects: 'send',
  connection: 'letters',
  repeatable: false,
  handler: async (_invocation, _args, { credential }) => {
    used.push(credential?.settings['name'] ?? 'none')
    const refusal = refusals.shift()
    if (refusal !== undefined) throw refusal
    return ok({})
  },
})

const script: Script = ({ turns }) =>
  turns.length === 0
    ? { calls: [{ tool: 'letters.post', args: { text: 'hello' } }] }
    : { text: JSON.stringify(turns[0]?.calls[0]?.result) }

const open = (): Promise<World> => world({ database: db.database, extraTools: [post], script })

async function connect(w: World, name: string): Promise<string> {
  const { organizationId } = w
  const made = await w.core.stores.connections.create({
    organizationId,
    provider: 'letters',
    label: name,
    settings: { name },
  })
  return made.connection.id
}

async function stateOf(w: World, id: string): Promise<ConnectionState | undefined> {
  const all = await w.core.stores.connections.list(w.organizationId, 'letters')
  return all.find((connection) => connection.id === id)?.state
}

async function become(w: World, connectionId: string, state: ConnectionState): Promise<void> {
  const { organizationId } = w
  const outcome = await w.core.stores.connections.setState({ organizationId, connectionId, state })
  expect(outcome.kind).toBe('changed')
}

async function approve(w: World, runId: string) {
  const [one] = await w.pending(runId)
  if (one === undefined) throw new Error('nothing waits')
  const answer = { approvalId: one.id, argumentsHash: one.argumentsHash, note: null }
  const decider = { actor: APPROVER, roles: [] }
  return w.core.approvals.approve({ organizationId: w.organizationId, decider, ...answer })
}

describe('R37 an approval remembers the account it was asked for', () => {
  test('and the call acts with that one, whatever was connected since', async () => {
    const w = await open()
    await connect(w, 'sales')
    const run = await w.start()
    await w.engine.settle()
    await connect(w, 'support')
    expect((await approve(w, run.id)).kind).toBe('answered')
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'completed', output: expect.stringContaining('"ok":true') })
    expect(used).toEqual(['sales'])
  })

  test.each<ConnectionState>(['needs_reauth', 'revoked'])(
    'and cannot be given once that account is %s, though another one is there',
    async (state) => {
      const w = await open()
      const sales = await connect(w, 'sales')
      const run = await w.start()
      await w.engine.settle()
      await connect(w, 'support')
      await become(w, sales, state)
      expect(await approve(w, run.id)).toMatchObject({ kind: 'stale', reason: 'connection_changed' })
      expect(used).toEqual([])
    },
  )

  test('and after it was given, a withdrawn account is not replaced by another one', async () => {
    const w = await open()
    const sales = await connect(w, 'sales')
    const run = await w.start()
    await w.engine.settle()
    await connect(w, 'support')
    expect((await approve(w, run.id)).kind).toBe('answered')
    await become(w, sales, 'revoked')
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('connection_revoked')
    expect(used).toEqual([])
  })

  test('and a call that could not have been made asks all the same, and says so when it is allowed', async () => {
    const w = await open()
    const run = await w.start()
    await w.engine.settle()
    expect((await approve(w, run.id)).kind).toBe('answered')
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('connection_required')
  })
})

describe('an account that its provider no longer accepts', () => {
  const OPEN = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

  test('T31 needs a person from then on, and the call left no claim', async () => {
    const w = await world({ database: db.database, extraTools: [post], settings: OPEN })
    const sales = await connect(w, 'sales')
    refusals.push(new ConnectionError('connection_expired', 'the mailbox has to be connected again'))
    const invocation = await w.invocation(['letters.post'])
    const call = () =>
      inRun(w.core, invocation, () =>
        w.core.invoker.invoke({ toolName: 'letters.post', args: { text: 'a' } }, invocation),
      )
    expect((await call()).error?.code).toBe('connection_expired')
    expect(await stateOf(w, sales)).toBe('needs_reauth')
    expect((await call()).error?.code).toBe('connection_expired')
    expect(used).toEqual(['sales'])
    await become(w, sales, 'connected')
    expect((await call()).ok).toBe(true)
    expect(used).toEqual(['sales', 'sales'])
  })

  test('is believed to be refused only when its handler says so', async () => {
    const w = await world({ database: db.database, extraTools: [post], settings: OPEN })
    const sales = await connect(w, 'sales')
    refusals.push(new Error('401'), new ConnectionError('connection_required', 'another one is needed'))
    const invocation = await w.invocation(['letters.post'])
    const call = (text: string) =>
      inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: 'letters.post', args: { text } }, invocation))
    await expect(call('a')).rejects.toThrow('401')
    expect((await call('b')).error?.code).toBe('connection_required')
    expect(await stateOf(w, sales)).toBe('connected')
  })
})
