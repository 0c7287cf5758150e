import * as fc from 'fast-check'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Lane } from '../src/runs/lane.ts'
import type { RunStore, Segment } from '../src/runs/run-store.ts'
import { laneStore } from '../src/storage/lane-store.ts'
import { runStore } from '../src/storage/run-store.ts'
import { auditLanes, begunOrder, lanePeaks } from './lane-audit.ts'
import { laneScene, LIMITS, OPERATOR, owns, RULES, silence, type LaneScene } from './lane-scene.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const COMPLETED = { status: 'completed', reason: null, message: null, output: null } as const
const FAULT = { message: 'a fault', final: { maxFailures: 2, ending: { ...COMPLETED, status: 'failed' } } } as const
const soon = (): Date => new Date(Date.now() + 60_000)

type Event =
  | { readonly do: 'start'; readonly lane: Lane }
  /** The nth run of those there are is tried, whatever its state. */
  | { readonly do: 'begin'; readonly nth: number }
  | { readonly do: 'end' | 'park' | 'leave' | 'fail' | 'crash' | 'late beat' | 'late end'; readonly nth: number }
  | { readonly do: 'answer'; readonly nth: number }
  | { readonly do: 'sweep' }

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant('start' as const), lane: fc.constantFrom<Lane>('interactive', 'batch') }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('begin' as const), nth: fc.nat(20) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constantFrom('end', 'park', 'leave', 'fail', 'crash', 'late beat', 'late end'),
      nth: fc.nat(20),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('answer' as const), nth: fc.nat(20) }) },
  { weight: 2, arbitrary: fc.constant({ do: 'sweep' as const }) },
)

/** Plays events over several pools: those of one step at the same time. */
class Player {
  readonly #scene: LaneScene
  readonly #stores: readonly RunStore[]
  readonly #runs: string[] = []
  /** Segments that were begun, whatever became of them. */
  readonly #segments: Segment[] = []

  constructor(scene: LaneScene, stores: readonly RunStore[]) {
    this.#scene = scene
    this.#stores = stores
  }

  get started(): number {
    return this.#runs.length
  }

  async step(events: readonly Event[]): Promise<void> {
    await Promise.all(events.map((one, index) => this.#play(one, this.#stores[index % this.#stores.length]!)))
  }

  /** Does what is left, as engines would. Answers how many rounds it took, or null when it never ends. */
  async finish(): Promise<number | null> {
    const { kysely } = db.database
    for (let round = 0; round < this.#runs.length * 4 + 4; round += 1) {
      for (const segment of this.#segments) await silence(db.database, segment)
      await kysely
        .updateTable('agent.runs')
        .set({ wake_at: new Date(0) })
        .where('status', 'in', ['queued', 'parked'])
        .execute()
      await this.#sweep(this.#stores[round % this.#stores.length]!)
      for (const segment of this.#segments) await owns(() => this.#stores[0]!.end(segment, COMPLETED))
      const open = await kysely.selectFrom('agent.runs').select('id').where('ended_at', 'is', null).execute()
      if (open.length === 0) return round
    }
    return null
  }

  async #play(one: Event, store: RunStore): Promise<void> {
    switch (one.do) {
      case 'start':
        this.#runs.push((await this.#scene.create(one.lane)).id)
        return
      case 'begin':
        return this.#begin(nthOf(this.#runs, one.nth), store)
      case 'answer':
        return this.#answer(nthOf(this.#runs, one.nth))
      case 'sweep':
        return this.#sweep(store)
      default: {
        const segment = nthOf(this.#segments, one.nth)
        if (segment !== undefined) await this.#move(one.do, segment, store)
      }
    }
  }

  async #begin(runId: string | undefined, store: RunStore): Promise<void> {
    const segment = runId === undefined ? null : await this.#scene.begin(runId, store)
    if (segment !== null) this.#segments.push(segment)
  }

  async #sweep(store: RunStore): Promise<void> {
    for (const runId of await store.due(RULES, 100)) await this.#begin(runId, store)
  }

  async #move(how: string, segment: Segment, store: RunStore): Promise<void> {
    switch (how) {
      case 'park':
        return void (await owns(() => store.park(segment, { wakeAt: soon() })))
      case 'leave':
        return void (await owns(() => store.release(segment, null)))
      case 'fail':
        return void (await owns(() => store.release(segment, FAULT)))
      case 'crash':
        return silence(db.database, segment)
      case 'late beat':
        return void (await owns(() => store.beat(segment)))
      default:
        return void (await owns(() => store.end(segment, COMPLETED)))
    }
  }

  async #answer(runId: string | undefined): Promise<void> {
    if (runId === undefined) return
    await db.database.execute(
      `UPDATE agent.runs SET wake_counter = wake_counter + 1, wake_at = clock_timestamp() WHERE id = '${runId}' AND status = 'parked'`,
    )
  }
}

function nthOf<T>(list: readonly T[], nth: number): T | undefined {
  return list.length === 0 ? undefined : list[nth % list.length]
}

describe('the limit of a lane', () => {
  test('is never passed, whatever starts, ends, crashes and is answered over three pools', async () => {
    const pools = [db.database, await db.another(), await db.another()]
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(event, { minLength: 1, maxLength: 6 }), { minLength: 5, maxLength: 25 }),
        async (steps) => {
          await empty(db.database)
          await auditLanes(db.admin)
          const player = new Player(await laneScene(db.database), pools.map(runStore))
          for (const events of steps) await player.step(events)
          expect(await player.finish()).not.toBeNull()
          for (const { lane, peak } of await lanePeaks(db.admin)) expect(peak).toBeLessThanOrEqual(LIMITS[lane as Lane])
        },
      ),
      { numRuns: 25 },
    )
  }, 180_000)

  test('holds for runs that are woken before their time, all at once, which no order of waiting keeps apart', async () => {
    await auditLanes(db.admin)
    const scene = await laneScene(db.database)
    const stores = [db.database, await db.another(), await db.another()].map(runStore)
    const runs = await Promise.all(Array.from({ length: 12 }, () => scene.create()))
    await db.database.kysely.updateTable('agent.runs').set({ status: 'parked', wake_at: soon() }).execute()
    const begun = await Promise.all(runs.map(({ id }, index) => scene.begin(id, stores[index % 3])))
    expect(begun.filter((segment) => segment !== null)).toHaveLength(LIMITS.interactive)
    // The audit has seen them, so that what it says elsewhere means something.
    expect(await lanePeaks(db.admin)).toMatchObject([{ lane: 'interactive', peak: LIMITS.interactive }])
  })

  test('is of one organization and one lane: others have places of their own', async () => {
    const [a, b] = [await laneScene(db.database), await laneScene(db.database)]
    for (const scene of [a, b]) {
      const runs = [await scene.create(), await scene.create(), await scene.create('batch')]
      for (const { id } of runs) expect(await scene.begin(id)).not.toBeNull()
      const late = [await scene.create(), await scene.create('batch')]
      for (const { id } of late)
        expect(await scene.store.begin(id, randomUUID(), RULES)).toMatchObject({ kind: 'waiting', why: 'lane_full' })
    }
  })

  test('is the organization’s own where it sets one, and the deployment’s again when it takes it back', async () => {
    const scene = await laneScene(db.database)
    const lanes = laneStore(db.database)
    const lane = { organizationId: scene.organizationId, lane: 'batch' } as const
    await lanes.setLimit(lane, 3)
    const runs = [await scene.create('batch'), await scene.create('batch'), await scene.create('batch')]
    for (const { id } of runs) expect(await scene.begin(id)).not.toBeNull()
    await lanes.setLimit(lane, null)
    const segment = await scene.create('batch')
    expect(await scene.begin(segment.id)).toBeNull()
    expect(await lanes.list(scene.organizationId, LIMITS)).toMatchObject([
      { lane: 'interactive', active: 0, queued: 0, limit: 2, limitIsOwn: false },
      { lane: 'batch', active: 3, queued: 1, limit: 1, limitIsOwn: false },
    ])
  })

  test('takes no count of a run in somebody’s own loop, and does not keep it waiting', async () => {
    const scene = await laneScene(db.database)
    const own = await scene.create('batch')
    await db.database.execute(`UPDATE agent.runs SET source = 'library' WHERE id = '${own.id}'`)
    const managed = await scene.create('batch')
    expect(await scene.begin(managed.id)).not.toBeNull()
    expect(await scene.begin(own.id)).not.toBeNull()
    const next = await scene.create('batch')
    expect(await scene.begin(next.id)).toBeNull()
  })
})

describe('who comes next', () => {
  const at = (minute: number): Date => new Date(Date.UTC(2026, 0, 1, 0, minute))

  test('the run that waits longest: an answered one between older and newer ones, and a flood passes nobody', async () => {
    await auditLanes(db.admin)
    const scene = await laneScene(db.database)
    const holder = await scene.create('batch', at(0))
    const holding = await scene.begin(holder.id)
    const older = await scene.create('batch', at(1))
    const answered = await scene.create('batch', at(0))
    await db.database.kysely
      .updateTable('agent.runs')
      .set({ status: 'parked', wake_at: at(2) })
      .where('id', '=', answered.id)
      .execute()
    const flood = await Promise.all(Array.from({ length: 10 }, (_, index) => scene.create('batch', at(3 + index))))
    await scene.store.end(holding!, COMPLETED)
    // Everybody asks, the newest first, and only the one whose turn it is gets the place.
    const order = [...flood.toReversed(), answered, older]
    for (let turn = 0; turn < 12; turn += 1) {
      for (const { id } of order) {
        const segment = await scene.begin(id)
        if (segment !== null) await scene.store.end(segment, COMPLETED)
      }
    }
    expect(await begunOrder(db.admin)).toEqual([holder.id, older.id, answered.id, ...flood.map(({ id }) => id)])
  })

  test('a failing run does not keep its turn: its next try is in line from the time it is due', async () => {
    const scene = await laneScene(db.database)
    const failing = await scene.create('batch', at(0))
    const other = await scene.create('batch', at(1))
    await scene.store.release((await scene.begin(failing.id))!, FAULT)
    expect(await scene.begin(other.id)).not.toBeNull()
  })

  test('a lane full of waiting runs names none of them as due, one with places as many as fit', async () => {
    const scene = await laneScene(db.database)
    const other = await laneScene(db.database)
    const lone = await other.create()
    const runs = []
    for (let nth = 0; nth < 60; nth += 1) runs.push((await scene.create('interactive', at(nth))).id)
    const first = [runs[0], runs[1]]
    expect(new Set(await scene.store.due(RULES, 100))).toEqual(new Set([...first, lone.id]))
    const segment = await scene.begin(runs[0]!)
    expect(new Set(await scene.store.due(RULES, 100))).toEqual(new Set([runs[1], lone.id]))
    await scene.begin(runs[1]!)
    expect(await scene.store.due(RULES, 100)).toEqual([lone.id])
    expect(await scene.store.due(RULES, 100, scene.organizationId)).toEqual([])
    await scene.store.end(segment!, COMPLETED)
    const lanes = laneStore(db.database)
    expect(await lanes.next({ organizationId: scene.organizationId, lane: 'interactive' }, LIMITS)).toEqual([runs[2]])
  })
})

describe('a holder that died', () => {
  test('frees its place after the silence, and is refused everything when it wakes', async () => {
    const scene = await laneScene(db.database)
    const dead = await scene.create('batch')
    const holding = (await scene.begin(dead.id))!
    const next = await scene.create('batch')
    expect(await scene.begin(next.id)).toBeNull()
    await silence(db.database, holding)
    expect(await scene.store.due(RULES, 100)).toEqual([dead.id])
    // Whoever asks gives the place back; it goes to the run that waits longest, which is the dead one's own.
    expect(await scene.begin(next.id)).toBeNull()
    expect(await scene.store.get(scene.organizationId, dead.id)).toMatchObject({ status: 'queued' })
    expect(await scene.begin(dead.id)).not.toBeNull()
    for (const write of [
      () => scene.store.beat(holding),
      () => scene.store.park(holding, { wakeAt: soon() }),
      () => scene.store.release(holding, null),
      () => scene.store.release(holding, FAULT),
      () => scene.store.end(holding, COMPLETED),
    ])
      expect(await owns(write)).toBe(false)
  })

  test('is refused from the moment its place is given back, before anybody took its run', async () => {
    const scene = await laneScene(db.database)
    const older = await scene.create('batch', new Date(0))
    const dead = await scene.create('batch')
    await db.database.execute(`UPDATE agent.runs SET held_at = now() WHERE id = '${older.id}'`)
    const holding = (await scene.begin(dead.id))!
    await laneStore(db.database).release({ organizationId: scene.organizationId, runId: older.id }, OPERATOR)
    await db.database.execute(`UPDATE agent.runs SET wake_at = NULL WHERE id = '${older.id}'`)
    await silence(db.database, holding)
    expect(await scene.begin(older.id)).not.toBeNull()
    expect(await owns(() => scene.store.beat(holding))).toBe(false)
  })
})

describe('a paused lane', () => {
  test('begins nothing from the moment it is paused, on any pool, and the other lane goes on', async () => {
    await auditLanes(db.admin)
    const scene = await laneScene(db.database)
    const lanes = laneStore(db.database)
    const stores = [db.database, await db.another(), await db.another()].map(runStore)
    const lane = { organizationId: scene.organizationId, lane: 'interactive' } as const
    await lanes.setLimit(lane, 100)
    const runs = await Promise.all(Array.from({ length: 30 }, () => scene.create()))
    const pausing = Promise.withResolvers<unknown>()
    await Promise.all(
      runs.map(async ({ id }, index) => {
        if (index === 10) pausing.resolve(lanes.pause(lane, OPERATOR))
        await scene.begin(id, stores[index % 3])
      }),
    )
    await pausing.promise
    const { rows } = await db.admin.query<{ late: number }>({
      name: '',
      text: 'SELECT count(*)::integer AS late FROM audit.places p JOIN agent.lanes l USING (organization_id, lane) WHERE p.change > 0 AND p.at > l.paused_at',
    })
    expect(rows).toEqual([{ late: 0 }])
    const late = await scene.create()
    expect(await scene.store.begin(late.id, randomUUID(), RULES)).toMatchObject({ kind: 'waiting', why: 'lane_paused' })
    expect(await scene.store.due(RULES, 100)).toEqual([])
    expect(await scene.begin((await scene.create('batch')).id)).not.toBeNull()
    expect(await lanes.pause(lane, OPERATOR)).toBe(false)
    expect(await lanes.list(scene.organizationId, LIMITS)).toMatchObject([
      { paused: { by: OPERATOR } },
      { paused: null },
    ])
    expect(await lanes.resume(lane)).toBe(true)
    expect(await lanes.resume(lane)).toBe(false)
    expect(await scene.store.due(RULES, 100)).toContain(late.id)
  })

  test('takes the run of a dead segment back into the queue, and keeps it there', async () => {
    const scene = await laneScene(db.database)
    const run = await scene.create()
    const holding = (await scene.begin(run.id))!
    await laneStore(db.database).pause({ organizationId: scene.organizationId, lane: 'interactive' }, OPERATOR)
    await silence(db.database, holding)
    expect(await scene.store.due(RULES, 100)).toEqual([run.id])
    expect(await scene.begin(run.id)).toBeNull()
    expect(await scene.store.get(scene.organizationId, run.id)).toMatchObject({ status: 'queued' })
    expect(await scene.store.due(RULES, 100)).toEqual([])
  })
})

describe('tries that are spent', () => {
  test('end the run in the step of the last one, and nobody else hears that it was the last', async () => {
    const scene = await laneScene(db.database)
    const run = await scene.create()
    const outcomes = []
    for (let nth = 0; nth < 3; nth += 1) outcomes.push(await scene.store.release((await scene.begin(run.id))!, FAULT))
    expect(outcomes).toEqual([
      { kind: 'queued', failures: 1 },
      { kind: 'queued', failures: 2 },
      { kind: 'failed', failures: 3 },
    ])
    expect(await scene.store.begin(run.id, randomUUID(), RULES)).toEqual({ kind: 'ended' })
    expect(await scene.store.fail(run.id, COMPLETED)).toBeNull()
  })

  test('ending a waiting run never takes it from a segment that got it meanwhile', async () => {
    const scene = await laneScene(db.database)
    const run = await scene.create()
    const segment = (await scene.begin(run.id))!
    expect(await scene.store.fail(run.id, COMPLETED)).toBeNull()
    expect(await owns(() => scene.store.beat(segment))).toBe(true)
  })
})
