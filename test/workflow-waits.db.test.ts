import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Instrument } from '../src/core.ts'
import type { Segment } from '../src/runs/run-store.ts'
import { expr, parallel, sequence, tool, waitFor, waitForSignal, waitUntil } from '../src/runs/workflow/index.ts'
import { ValidationError } from '../src/tools/errors.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER } from './setup/world.ts'
import { workflowScene, type WorkflowScene } from './workflow-scene.ts'

let db: TestDatabase
let scene: WorkflowScene
/** Milliseconds the clock of the platform is ahead. */
let ahead: number

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  ahead = 0
  scene = await workflowScene({ database: db.database, now: () => new Date(Date.now() + ahead) })
})

const note = (id: string, text: string) => tool(id, { tool: 'crm.note', args: { text: expr(text) } })

/** Lets time pass, and wakes what is due then. */
async function pass(seconds: number): Promise<void> {
  ahead += seconds * 1000
  await db.database.execute(`UPDATE agent.runs SET wake_at = wake_at - interval '${seconds} seconds'`)
  await scene.engine.sweep()
  await scene.engine.settle()
}

const signal = (runId: string, name: string, payload: JsonValue = null) =>
  scene.runtime.runs.signal({ organizationId: scene.organizationId, runId, name, payload, by: STARTER })

describe('a wait for a time', () => {
  test('parks the run until then, and not longer', async () => {
    await scene.publish(sequence('main', [note('before', '"1"'), waitFor('pause', 600), note('after', '"2"')]))
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'parked' })
    expect((run.wakeAt?.getTime() ?? 0) - Date.now()).toBeGreaterThan(590_000)
    await pass(599)
    expect(await scene.run(run.id)).toMatchObject({ status: 'parked' })
    await pass(2)
    expect(await scene.run(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['1', '2'])
  })

  test('takes an instant that an expression answers, and one that has passed is no wait', async () => {
    await scene.publish(waitUntil('then', expr('input.at')))
    expect(await scene.play({ at: '2020-01-01T00:00:00Z' })).toMatchObject({ status: 'completed' })
    expect(await scene.play({ at: new Date(Date.now() + 60_000).toISOString() })).toMatchObject({ status: 'parked' })
    expect(await scene.play({ at: 'tomorrow' })).toMatchObject({ status: 'failed', reason: 'expression_failed' })
  })

  test('ends with the time of its run, which ends partial', async () => {
    await scene.publish(sequence('main', [waitFor('pause', 10_000), note('after', '"2"')]), {
      ceilings: { maxDurationS: 100 },
    })
    const run = await scene.play()
    expect(run.wakeAt?.getTime()).toBeLessThanOrEqual(run.deadline.getTime())
    const until = (await scene.steps(run.id))['pause']?.wait?.until ?? ''
    expect(Date.parse(until)).toBe(run.deadline.getTime())
    await pass(101)
    expect(await scene.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_duration' })
    expect(scene.effects.notes).toEqual([])
  })
})

describe('a wait for a signal', () => {
  const root = sequence('main', [
    waitForSignal('order', { name: 'order.paid', timeoutS: 600 }),
    note('after', 'steps.order.output.received ? steps.order.output.payload.id : "nobody"'),
  ])

  test('goes on with what was sent', async () => {
    await scene.publish(root)
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'parked' })
    expect(await signal(run.id, 'order.shipped', { id: 'other' })).toEqual({ accepted: true })
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'parked' })
    await signal(run.id, 'order.paid', { id: 'o1' })
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['o1'])
  })

  test('finds what was sent before anybody waited, the oldest first, and takes each once', async () => {
    await scene.publish(
      sequence('all', [
        root,
        waitForSignal('second', { name: 'order.paid', timeoutS: 60 }),
        note('b', 'steps.second.output.payload.id'),
      ]),
    )
    const { id } = await scene.runtime.runs.start({
      organizationId: scene.organizationId,
      definition: 'flow',
      input: null,
      startedBy: STARTER,
      source: 'api',
    })
    await signal(id, 'order.paid', { id: 'o1' })
    await signal(id, 'order.paid', { id: 'o2' })
    expect(await scene.goOn(id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['o1', 'o2'])
  })

  test('that comes while the run parks is not lost', async () => {
    let sent = false
    const instrument: Instrument = (port, implementation) =>
      port !== 'runs'
        ? implementation
        : new Proxy(implementation, {
            get(store, verb) {
              const member: unknown = Reflect.get(store, verb, store)
              if (typeof member !== 'function') return member
              return async (...given: unknown[]): Promise<unknown> => {
                if (verb === 'park' && !sent) {
                  sent = true
                  await signal((given[0] as Segment).run.id, 'order.paid', { id: 'late' })
                }
                return Reflect.apply(member, store, given) as unknown
              }
            },
          })
    scene = await workflowScene({ database: db.database, instrument })
    await scene.publish(root)
    expect(await scene.play()).toMatchObject({ status: 'completed' })
    expect([sent, scene.effects.notes]).toEqual([true, ['late']])
  })

  test('reads once more when its time is over: what came in the last moment counts', async () => {
    await scene.publish(root)
    const run = await scene.play()
    // Sent by a process that died before it woke anybody.
    await db.database.query(
      {
        name: '',
        text: `INSERT INTO agent.run_signals (id, organization_id, run_id, name, payload, sent_by) VALUES ($1, $2, $3, 'order.paid', '{"id":"o9"}', '{}')`,
      },
      [scene.core.newId(), scene.organizationId, run.id],
    )
    await pass(601)
    expect(await scene.run(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['o9'])
  })

  test('goes on without when nobody sent it in time', async () => {
    await scene.publish(root)
    const run = await scene.play()
    await pass(601)
    expect(await scene.run(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['nobody'])
  })

  test('keeps nothing beside it from going on', async () => {
    await scene.publish(parallel('both', [root, sequence('s', [note('a', '"1"'), note('b', '"2"')])]))
    const run = await scene.play()
    expect(scene.effects.notes).toEqual(['1', '2'])
    await signal(run.id, 'order.paid', { id: 'o1' })
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
  })
})

describe('a signal', () => {
  test('is refused by a run that has ended, and by what is no run of a workflow', async () => {
    await scene.publish(note('a', '"1"'))
    const run = await scene.play()
    expect(await signal(run.id, 'order.paid')).toEqual({ accepted: false })
    expect(await signal('00000000-0000-4000-8000-000000000000', 'order.paid')).toBeNull()
    const agent = await scene.start()
    await expect(signal(agent.id, 'order.paid')).rejects.toThrow('only the runs of workflows take signals')
  })

  test.each([
    ['a name that is none', 'Order Paid', null],
    ['a payload over 64 kB', 'order.paid', 'x'.repeat(65_536)],
  ])('is refused with %s', async (_what, name, payload) => {
    await scene.publish(waitForSignal('w', { name: 'order.paid', timeoutS: 60 }))
    const run = await scene.play()
    await expect(signal(run.id, name, payload)).rejects.toThrow(ValidationError)
  })
})
