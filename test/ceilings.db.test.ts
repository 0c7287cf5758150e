import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import type { Script } from '../src/testing/script.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER, world } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

/** Writes one more note in every turn, for ever. */
const endless: Script = ({ turns }) => ({ calls: [{ tool: 'crm.note', args: { text: `note ${turns.length}` } }] })

describe('a run ends partial at its ceiling, and keeps what it has done', () => {
  test('of turns: the calls of the last turn are still answered', async () => {
    const w = await world({ database: db.database, script: endless, ceilings: { maxTurns: 3 } })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_turns', turns: 3 })
    expect(w.effects.notes).toEqual(['note 0', 'note 1', 'note 2'])
  })

  test('of tool calls', async () => {
    const w = await world({ database: db.database, script: endless, ceilings: { maxToolCalls: 2 } })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_tool_calls' })
    expect(w.effects.notes).toEqual(['note 0', 'note 1'])
  })

  test('of time, also while it waits for a person', async () => {
    const script: Script = () => ({ calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] })
    const w = await world({ database: db.database, script, ceilings: { maxDurationS: 60 } })
    const run = await w.start()
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('parked')
    await db.database.execute(
      "UPDATE agent.runs SET deadline = now() - interval '1 second', wake_at = now() - interval '1 second'",
    )
    await w.engine.sweep()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_duration' })
    expect(await w.pending(run.id)).toEqual([])
    expect(w.effects.sent).toEqual([])
  })

  test('of cost, counted after every turn of the model', async () => {
    const prices = { 'scripted/*': { inputCents: 1_000_000, outputCents: 1_000_000 } }
    const w = await world({ database: db.database, script: endless, prices, ceilings: { maxCostCents: 1 } })
    const run = await w.start()
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_cost', turns: 1 })
    // The call of the turn that reached it was proposed and not made.
    expect(w.effects.notes).toEqual([])
  })
})

describe('a run does not start', () => {
  test('with a cost ceiling on a model that has no price', async () => {
    const w = await world({ database: db.database })
    const ceilings = { ...DEFAULT_CEILINGS, maxCostCents: 100 }
    const body = { slug: 'priced', instructions: '', tools: ['crm.note'], model: 'acme/unpriced', ceilings }
    await w.runtime.runs.publish(w.organizationId, body, STARTER)
    const starting = w.runtime.runs.start({
      organizationId: w.organizationId,
      definition: 'priced',
      input: 'go',
      startedBy: STARTER,
      source: 'api',
    })
    await expect(starting).rejects.toThrow('needs a price for acme/unpriced')
    expect((await w.runtime.runs.list(w.organizationId)).items).toEqual([])
  })

  test('above the ceilings of its definition', async () => {
    const w = await world({ database: db.database, ceilings: { maxTurns: 3 } })
    const starting = w.runtime.runs.start({
      organizationId: w.organizationId,
      definition: 'outreach',
      input: 'go',
      startedBy: STARTER,
      source: 'api',
      ceilings: { maxTurns: 4 },
    })
    await expect(starting).rejects.toThrow('maxTurns of this run is at most 3')
  })
})
