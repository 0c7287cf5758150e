import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Instrument } from '../src/core.ts'
import { usageIdOf } from '../src/provider-jobs/job-id.ts'
import { identityStore, type KeyKind } from '../src/storage/identity-store.ts'
import { unnamed } from '../src/storage/statement.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER } from './setup/world.ts'
import {
  collect,
  dropsOf,
  firstBatch,
  jobRows,
  jobScene,
  type JobScene,
  type JobSceneOptions,
  submit,
  usageRows,
} from './provider-jobs.ts'

let db: TestDatabase
const scenes: JobScene[] = []

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene.close()
})
afterAll(() => db.close())

async function open(options: Omit<JobSceneOptions, 'database'> = {}) {
  const scene = await jobScene({ database: db.database, ...options })
  scenes.push(scene)
  return { scene, invocation: await scene.w.invocation() }
}

/** Lets one verb of the store fail so many times. */
function failing(name: string, times: number): Instrument {
  let left = times
  return (port, implementation) =>
    port !== 'provider_jobs'
      ? implementation
      : new Proxy(implementation, {
          get(object, verb) {
            const member: unknown = Reflect.get(object, verb)
            if (verb !== name || typeof member !== 'function') return member
            return (...given: unknown[]): unknown => {
              left -= 1
              return left >= 0 ? Promise.reject(new Error('no connection')) : Reflect.apply(member, object, given)
            }
          },
        })
}

describe('the cost of a job', () => {
  test('T07 R49 settles once when the run was cancelled before the callback came, and its tree shows it', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const { organizationId, runId } = invocation
    await scene.w.runtime.runs.cancel({ organizationId, runId, by: STARTER, reason: 'enough' })
    await scene.w.engine.settle()
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toMatchObject([
      { id: usageIdOf(jobId), root_run_id: runId, run_id: runId, cost_cents: 5.8 },
    ])
    const span = (await scene.w.spans(runId)).find(({ name }) => name === 'fullenrich.submit')
    expect(span?.attributes['usageId']).toBe(usageIdOf(jobId))
  })

  test('R49 is written under one id by any number of settlements at the same time', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    const job = { provider: 'fullenrich', jobId }
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => scene.jobs.settle(job)))
    expect(outcomes.filter((outcome) => outcome === 'settled')).toHaveLength(1)
    await scene.w.engine.settle()
    expect(await scene.jobs.settle(job)).toBe('already')
    await collect(scene, invocation, jobId)
    expect(await usageRows(db.database)).toMatchObject([{ id: usageIdOf(jobId) }])
  })

  test('is not written twice when a process dies between the row and the stamp', async () => {
    const { scene, invocation } = await open({ instrument: failing('stamp', 2) })
    await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toHaveLength(1)
    expect(await jobRows(db.database)).toMatchObject([{ usage_id: expect.any(String) as string }])
    expect(scene.reports).toEqual([])
  })

  test('is tried three times more, then reported once, and the job stays to be found and settled by hand', async () => {
    const { scene, invocation } = await open({ instrument: failing('charge', 4) })
    const jobId = await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    expect(scene.reports).toEqual(['Error: fullenrich: the cost of an ended job could not be written down'])
    expect(await usageRows(db.database)).toEqual([])
    const unsettled = { limit: 10, cursor: null, unsettled: true }
    const { organizationId } = invocation
    expect((await scene.jobs.listing.list(organizationId, unsettled)).items.map(({ id }) => id)).toEqual([jobId])
    expect(await scene.jobs.settle({ provider: 'fullenrich', jobId })).toBe('settled')
    expect((await scene.jobs.listing.list(organizationId, unsettled)).items).toEqual([])
    expect(await usageRows(db.database)).toHaveLength(1)
  })

  test('that the vendor does not report is not zero: every contact is charged, as an estimate', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene), { body: (body) => ({ ...body, cost: null }) })
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toMatchObject([{ quantity: { credits: 2, estimated: 1 }, cost_cents: 11.6 }])
  })

  test('of a batch that found nothing is a row of zero', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation, [{ ref: 'a', firstName: 'Nobody', lastName: 'Nobody', domain: 'x.test' }])
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toMatchObject([{ quantity: { credits: 0 }, cost_cents: 0 }])
  })

  test('of a job that has not ended, or is gone with its run, is not written', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const job = { provider: 'fullenrich', jobId }
    expect(await scene.jobs.settle(job)).toBe('not_ended')
    await scene.fullenrich.deliver(firstBatch(scene))
    await db.database.query(unnamed('DELETE FROM agent.runs WHERE id = $1'), [invocation.runId])
    await scene.w.engine.settle()
    expect(await scene.jobs.settle(job)).toBe('gone')
    expect(await usageRows(db.database)).toEqual([])
    expect(scene.reports).toEqual([])
  })
})

describe('what an operator sees', () => {
  test('jobs without their results, charges nobody wrote down, and dropped callbacks, by key and organization', async () => {
    const { scene, invocation } = await open({ instrument: failing('charge', 4) })
    const jobId = await submit(scene, invocation)
    const batch = firstBatch(scene)
    await scene.fullenrich.deliver(batch)
    await scene.fullenrich.deliver(batch)
    await scene.w.engine.settle()
    const { organizationId } = invocation
    const identities = identityStore(db.database)
    const keyOf = async (kind: KeyKind, organization = organizationId): Promise<string> =>
      (await identities.createApiKey({ organizationId: organization, kind, name: `${kind} ${organization}` })).secret
    const other = await open({ world: { slug: 'other' } })
    const [admin, run] = [await keyOf('admin'), await keyOf('run')]
    const stranger = await keyOf('admin', other.invocation.organizationId)
    const ask = async (path: string, key: string, method = 'GET') => {
      const response = await scene.app.request(`/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
      })
      return { status: response.status, body: (await response.json()) as Record<string, unknown> }
    }
    const shown = {
      id: jobId,
      provider: 'fullenrich',
      state: 'completed',
      items: 2,
      cost: { credits: 1 },
      usageId: null,
    }
    const unsettled = await ask('/provider-jobs?unsettled=true', run)
    expect(unsettled.body).toMatchObject({ items: [shown], nextCursor: null })
    expect(JSON.stringify(unsettled.body)).not.toContain('@')
    expect((await ask(`/provider-jobs/${jobId}`, run)).body).toMatchObject(shown)
    expect((await ask(`/provider-jobs?state=running`, run)).body['items']).toEqual([])
    expect((await ask(`/provider-jobs?provider=parallel`, run)).body['items']).toEqual([])
    expect((await ask('/provider-jobs', stranger)).body['items']).toEqual([])
    expect((await ask(`/provider-jobs/${jobId}`, stranger)).status).toBe(404)
    expect((await ask(`/provider-jobs/${jobId}/settle`, stranger, 'POST')).status).toBe(404)
    expect((await ask(`/provider-jobs/${jobId}/settle`, run, 'POST')).status).toBe(403)
    expect((await ask('/webhooks/drops', run)).status).toBe(403)
    expect((await ask('/webhooks/drops', admin)).body['items']).toMatchObject([
      { provider: 'fullenrich', reason: 'duplicate', count: 1 },
    ])
    expect(dropsOf(scene)).toEqual({ 'fullenrich duplicate': 1 })
    expect((await ask(`/provider-jobs/${jobId}/settle`, admin, 'POST')).body).toEqual({ id: jobId, outcome: 'settled' })
    expect((await ask('/provider-jobs?unsettled=true', run)).body['items']).toEqual([])
  })

  test('a list comes in pages, newest first', async () => {
    const { scene, invocation } = await open()
    const ids: string[] = []
    for (const stepPath of ['a', 'b', 'c']) ids.push(await submit(scene, { ...invocation, stepPath }))
    const { organizationId } = invocation
    const first = await scene.jobs.listing.list(organizationId, { limit: 2, cursor: null })
    const second = await scene.jobs.listing.list(organizationId, { limit: 2, cursor: first.nextCursor })
    expect([...first.items, ...second.items].map(({ id }) => id)).toEqual(ids.toReversed())
    expect(second.nextCursor).toBeNull()
  })
})
