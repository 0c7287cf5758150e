import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Instrument } from '../src/core.ts'
import type { StepStore } from '../src/runs/workflow/step-store.ts'
import { expr, map, sequence, tool } from '../src/runs/workflow/index.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { workflowScene } from './workflow-scene.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(() => empty(db.database))

/** A paid read of five cents, and what reached it. */
function paid() {
  const reached: string[] = []
  const search = vendorTool({
    name: 'research.search',
    description: 'A paid search.',
    input: z.object({ query: z.string() }),
    output: z.object({ hits: z.int() }),
    sideEffects: 'read',
    metered: true,
    handler: async (_invocation, { query }, { meter }) => {
      reached.push(query)
      await meter.record({ provider: 'exa', item: 'search', quantity: { searches: 1 }, costCents: 5 })
      return ok({ hits: 1 })
    },
  })
  return { tools: [search], reached }
}

/** What calls of one run tree have cost so far. */
async function spend(organizationId: string, rootRunId: string, cents: number): Promise<void> {
  await db.admin.query(
    {
      name: '',
      text: `INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, kind, provider, item, quantity, cost_cents)
        VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, 'tool', 'exa', 'search', '{}', $5::numeric)`,
    },
    [randomUUID(), organizationId, rootRunId, randomUUID(), cents],
  )
}

const search = (id: string, query: string) => tool(id, { tool: 'research.search', args: { query: expr(query) } })

async function open(settings: object = {}) {
  const { tools, reached } = paid()
  const policyDefaults = { read: 'allow', write: 'allow', send: 'allow' } as const
  const scene = await workflowScene({
    database: db.database,
    extraTools: tools,
    settings: { policyDefaults, ...settings },
  })
  return { scene, reached }
}

describe('the cost ceiling of a workflow run', () => {
  test('R13 refuses a metered call inside a fan-out, and the run ends partial with the work it has done', async () => {
    const { scene, reached } = await open()
    const each = map('each', { over: 'input', as: 'x', node: search('look', 'x'), fanoutConcurrency: 2, maxItems: 9 })
    await scene.publish(each, { ceilings: { maxCostCents: 15 }, output: expr('steps.each.output') })
    const queries = ['a', 'b', 'c', 'd', 'e', 'f']
    const run = await scene.play(queries)
    expect(run).toMatchObject({ status: 'partial', reason: expect.stringMatching(/^(max_cost|budget_exhausted)$/) })
    // Two that are in flight together may each have seen room for one.
    expect(reached.length).toBeGreaterThanOrEqual(3)
    expect(reached.length).toBeLessThanOrEqual(4)
  })

  test('R13 met by a call itself ends the run partial too, whatever its node says', async () => {
    const { tools, reached } = paid()
    let boundaries = 0
    // Another run of the tree spends what is left between the boundary of the node and its call.
    const instrument: Instrument = (port, implementation) => {
      if (port !== 'steps') return implementation
      const store = implementation as unknown as StepStore
      const record: StepStore['record'] = async (segment, ...rest) => {
        const ground = await store.record(segment, ...rest)
        boundaries += 1
        if (boundaries === 2) await spend(segment.run.organizationId, segment.run.rootRunId, 15)
        return ground
      }
      return { ...store, record } as never
    }
    const scene = await workflowScene({ database: db.database, extraTools: tools, instrument })
    const root = sequence('main', [
      search('one', '"1"'),
      { ...search('two', '"2"'), continueOnError: true },
      search('three', '"3"'),
    ])
    await scene.publish(root, { ceilings: { maxCostCents: 15 }, output: expr('steps.one.output.hits') })
    expect(await scene.play()).toMatchObject({ status: 'partial', reason: 'budget_exhausted', output: 1 })
    expect(reached).toEqual(['1'])
  })

  test('is read before every node: one that costs nothing does not begin either', async () => {
    const { scene, reached } = await open()
    const free = tool('write', { tool: 'crm.note', args: { text: 'x' } })
    await scene.publish(sequence('main', [search('one', '"1"'), free]), { ceilings: { maxCostCents: 5 } })
    expect(await scene.play()).toMatchObject({ status: 'partial', reason: 'max_cost' })
    expect([reached, scene.effects.notes]).toEqual([['1'], []])
  })

  test('does not undo what came to its end with the last cent', async () => {
    const { scene } = await open()
    await scene.publish(search('one', '"1"'), { ceilings: { maxCostCents: 5 } })
    expect(await scene.play()).toMatchObject({ status: 'completed', output: { hits: 1 } })
  })

  test('R44 is joined by that of the organization’s day, which is read between nodes and not before each call', async () => {
    const { scene, reached } = await open({ maxCostCentsPerDay: 20 })
    await spend(scene.organizationId, randomUUID(), 10)
    await scene.publish(sequence('main', [search('one', '"1"'), search('two', '"2"'), search('three', '"3"')]))
    expect(await scene.play()).toMatchObject({ status: 'partial', reason: 'max_cost_day' })
    expect(reached).toEqual(['1', '2'])
  })
})

test('the ceiling of the organization’s day keeps an agent from its next segment too', async () => {
  const { scene } = await open({ maxCostCentsPerDay: 0 })
  const { id } = await scene.start()
  expect(await scene.goOn(id)).toMatchObject({ status: 'partial', reason: 'max_cost_day', turns: 0 })
})

test('R13 a fault that a call of a workflow meets fails the run under the code of the refusal, whatever its node says', async () => {
  const { tools } = paid()
  const rules = [{ name: 'by age', tools: ['crm.note'], when: 'arguments.age > 3.0', effect: 'deny' }] as const
  const scene = await workflowScene({ database: db.database, extraTools: tools, rules })
  await scene.publish(
    sequence('main', [
      tool('bad', { tool: 'crm.note', args: { text: 'x' }, continueOnError: true }),
      tool('behind', { tool: 'crm.search', args: { query: 'x' } }),
    ]),
  )
  expect(await scene.play()).toMatchObject({ status: 'failed', reason: 'internal_error' })
  expect(scene.effects).toEqual({ sent: [], notes: [], searches: [] })
})
