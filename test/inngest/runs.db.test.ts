import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Rule } from '../../src/bailiff.ts'
import type { Script } from '../../src/testing/script.ts'
import { empty, testDatabase, type TestDatabase } from '../setup/database.ts'
import { world, type World, type WorldOptions } from '../setup/world.ts'
import { engineFor, executor } from './app.ts'
import type { Attempt, InngestExecutor, Mischief } from './executor.ts'

const ADVANCE = 'bailiff-advance-run'
const TTL_S = 120
const ask: Rule<string> = { name: 'ask', tools: ['email.send'], effect: 'require_approval', ttlS: TTL_S }
const allow: Rule<string> = { name: 'allow', tools: ['email.send'], effect: 'allow' }
const sending: Script = ({ turns }) =>
  turns.length === 0
    ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] }
    : { text: JSON.stringify(turns.at(-1)?.calls.map(({ result }) => result)) }

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

/** The whole platform under Inngest, with a server whose clock begins now, as the database's does. */
async function platform(
  options: Omit<WorldOptions, 'database'>,
  intoMinuteMs = 0,
): Promise<{ w: World; server: InngestExecutor }> {
  const server = executor(new Date(), intoMinuteMs)
  const engine = engineFor(server)
  const w = await world({ database: db.database, script: sending, durable: engine, ...options })
  await server.sync(engine.handler)
  return { w, server }
}

const sql = (text: string): Promise<void> => db.database.execute(text)

/** The first attempt at a request of the function that advances runs. */
function onFirst(mischief: Mischief): (attempt: Attempt) => Mischief | null {
  let done = false
  return ({ fnId }) => {
    if (done || fnId !== ADVANCE) return null
    done = true
    return mischief
  }
}

describe('a run under Inngest', () => {
  test('T12 a send that rules allow is made in process: nothing is waited for', async () => {
    const { w, server } = await platform({ rules: [allow] })
    const { id } = await w.start()
    await server.settle()
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
    expect(server.requests.filter(({ answer }) => answer.includes('WaitForEvent'))).toEqual([])
  })

  test('R08 parks for a person, is waited for until the question expires, and goes on at the answer', async () => {
    const { w, server } = await platform({ rules: [ask] })
    const { id } = await w.start()
    await server.settle()
    expect(await w.run(id)).toMatchObject({ status: 'parked' })
    const [{ items }] = [await w.core.approvals.list(w.organizationId, { runId: id })]
    expect(server.waiting().map(({ until }) => until)).toEqual([items[0]?.expiresAt])
    await w.approve(id)
    await server.settle()
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
    expect(server.waiting()).toEqual([])
  })

  test('a question that nobody answers expires at its time, and the model reads that it was rejected', async () => {
    const { w, server } = await platform({ rules: [ask] })
    const { id } = await w.start()
    await server.settle()
    await sql(`UPDATE agent.approvals SET expires_at = now() - interval '1 second'`)
    await sql(`UPDATE agent.runs SET wake_at = now() - interval '1 second' WHERE status = 'parked'`)
    await server.pass(TTL_S * 1000)
    const run = await w.run(id)
    expect(run).toMatchObject({ status: 'completed' })
    expect(JSON.stringify(run.output)).toContain('rejected')
    expect(w.effects.sent).toEqual([])
  })

  test('an answer whose event was lost is found by the sweep of the next minute', async () => {
    const { w, server } = await platform({ rules: [ask] })
    const { id } = await w.start()
    await server.settle()
    server.refuseEvents = true
    await w.approve(id)
    server.refuseEvents = false
    await server.settle()
    expect(w.effects.sent).toEqual([])
    await server.pass(60_000)
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
  })
})

describe('one message, whatever becomes of the request', () => {
  test('the answer is lost after the effect: the next attempt finds the run over', async () => {
    const { w, server } = await platform({ rules: [allow] })
    server.mischief = onFirst('drop-the-answer')
    const { id } = await w.start()
    await server.pass(60_000)
    expect(server.requests.filter(({ fnId, attempt }) => fnId === ADVANCE && attempt === 1)).toHaveLength(1)
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
  })

  test('it is delivered twice at once: one segment owns the run', async () => {
    const { w, server } = await platform({ rules: [allow] })
    server.mischief = onFirst('deliver-twice')
    const { id } = await w.start()
    await server.pass(60_000)
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
  })

  test('it is delivered once more after the run has ended', async () => {
    const { w, server } = await platform({ rules: [allow] })
    const { id } = await w.start()
    await server.settle()
    const [run] = server.runsOf(ADVANCE)
    if (run === undefined) throw new Error('no function run')
    expect((await server.deliverAgain(run)).status).toBe(206)
    expect(await w.run(id)).toMatchObject({ status: 'completed' })
    expect(w.effects.sent).toHaveLength(1)
  })

  test('it is given up on while the handler works: the next attempt waits for nobody and sends nothing', async () => {
    const inside = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    const { w, server } = await platform({
      rules: [allow],
      afterSend: async () => {
        inside.resolve()
        await release.promise
      },
    })
    server.mischief = onFirst('give-up')
    const { id } = await w.start()
    const passing = server.pass(30_000)
    await inside.promise
    await passing
    expect(server.requests.filter(({ fnId, attempt }) => fnId === ADVANCE && attempt === 1)).toHaveLength(1)
    release.resolve()
    await vi.waitFor(async () => expect(await w.run(id)).toMatchObject({ status: 'completed' }), 20_000)
    expect(w.effects.sent).toHaveLength(1)
  })

  test.each([
    { when: 'early in a minute', intoMinuteMs: 0, waits: 1 },
    // The minute's sweep finds the run before the retry does, and waits for the lease beside it.
    { when: 'at the end of a minute', intoMinuteMs: 56_000, waits: 2 },
  ])('its process dies after the effect, $when: the lease is waited for, then a person is asked', async (moment) => {
    const inside = Promise.withResolvers<void>()
    const never = Promise.withResolvers<void>()
    const afterSend = async (): Promise<void> => {
      inside.resolve()
      await never.promise
    }
    const { w, server } = await platform({ rules: [allow], afterSend }, moment.intoMinuteMs)
    server.mischief = onFirst('give-up')
    const { id } = await w.start()
    await server.settle()
    await inside.promise
    // What a dead process leaves: a heart that stopped, and a claim whose lease runs on.
    await sql(`UPDATE agent.runs SET begun_at = now() - interval '1 hour'`)
    await sql(`UPDATE agent.run_heartbeats SET segment_id = gen_random_uuid()`)
    await server.pass(30_000)
    expect(await w.run(id)).toMatchObject({ status: 'parked' })
    expect(server.waiting()).toHaveLength(moment.waits)
    const attempts = server.requests.filter(({ fnId }) => fnId === ADVANCE).map(({ attempt }) => attempt)
    expect(Math.max(...attempts)).toBe(1)
    await sql(`UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second'`)
    await sql(`UPDATE agent.runs SET wake_at = now() - interval '1 second'`)
    await server.pass(10 * 60_000)
    expect(w.effects.sent).toHaveLength(1)
    expect((await w.core.approvals.list(w.organizationId, { runId: id, state: 'pending' })).items).toMatchObject([
      { kind: 'outcome', tool: 'email.send' },
    ])
    never.resolve()
  })
})

test('a segment that fails is tried again at its time, not a minute later, and its run fails when its tries are spent', async () => {
  const reports: unknown[] = []
  const { w, server } = await platform({
    rules: [allow],
    reporter: { report: (error) => void reports.push(error) },
    onSend: async () => {
      throw new TypeError('password=hunter2')
    },
  })
  const { id } = await w.start()
  await server.settle()
  expect(server.waiting()).toHaveLength(1)
  for (let tries = 0; tries < 4; tries += 1) {
    await sql(`UPDATE agent.runs SET wake_at = now() - interval '1 second' WHERE wake_at IS NOT NULL`)
    await server.pass(5_000)
  }
  expect(await w.run(id)).toMatchObject({ status: 'failed', reason: 'internal_error' })
  expect(reports).toHaveLength(1)
  expect(JSON.stringify([server.requests, server.events])).not.toContain('hunter2')
})
