import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { expr, map, sequence, tool, waitForSignal } from '../src/runs/workflow/index.ts'
import type { WorkflowNode } from '../src/runs/workflow/definition.ts'
import { counting } from './setup/counting.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { workflowScene } from './workflow-scene.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const write = (id: string) => tool(id, { tool: 'crm.note', args: { text: id } })
const read = (id: string) => tool(id, { tool: 'crm.search', args: { query: id } })

/** What the nodes of a workflow send to the database, from its first boundary to its last. */
async function tripsOf(root: WorkflowNode, input: string[] = []): Promise<string[]> {
  const { database, trips } = counting(db.database)
  const scene = await workflowScene({ database })
  await scene.publish(root)
  // The rules are read once and kept by their version.
  await scene.play(input)
  trips.length = 0
  await scene.play(input)
  const first = trips.indexOf('run_steps_record')
  const own = trips.slice(first, trips.lastIndexOf('run_steps_record') + 1)
  // What earlier reads left in the batch is written in between, whenever the batch is due.
  return own.filter((name) => name !== 'call_close_many')
}

const WRITE = ['run_steps_record', 'call_open', 'call_claim', 'call_complete']
const READ = ['run_steps_record', 'call_open']

test('a node that writes needs four round trips, one of them its own; one that reads needs two', async () => {
  expect(await tripsOf(sequence('main', [write('a'), read('b'), write('c')]))).toEqual([
    ...WRITE,
    ...READ,
    ...WRITE,
    // The last boundary closes the last node and everything around it.
    'run_steps_record',
  ])
})

test('items that end together share a boundary, and their number costs nothing else', async () => {
  const each = map('each', {
    over: 'input',
    as: 'x',
    node: tool('find', { tool: 'crm.search', args: { query: expr('x') } }),
    fanoutConcurrency: 10,
    maxItems: 50,
  })
  const items = Array.from({ length: 10 }, (_, index) => `q${index}`)
  const trips = await tripsOf(each, items)
  expect(trips.filter((name) => name === 'call_open')).toHaveLength(10)
  expect(trips.filter((name) => name === 'run_steps_record').length).toBeLessThanOrEqual(11)
})

test('a wait for a signal that has come needs a look and a boundary', async () => {
  const trips = await tripsOf(sequence('main', [waitForSignal('w', { name: 'go', timeoutS: 0 }), read('after')]))
  expect(trips).toEqual(['run_steps_record', 'run_signal_take', 'run_steps_record', 'call_open', 'run_steps_record'])
})
