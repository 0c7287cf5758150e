import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startVendorServer, type VendorFault } from '../simulators/vendor-server.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { PARALLEL_KEY } from './provider-job-parts.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import {
  claimRows,
  dropsOf,
  jobRows,
  jobScene,
  type JobScene,
  type JobSceneOptions,
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

const TASK = {
  subject: 'Sample Freight, freight.test',
  fields: [
    { name: 'founded', description: 'Year it was founded.' },
    { name: 'head', description: 'Who leads it.' },
  ],
}

async function submitTask(scene: JobScene, invocation: ToolInvocation): Promise<string> {
  const result = await scene.call(invocation, 'research.submit_task', TASK)
  if (!result.ok) throw new Error(JSON.stringify(result.error))
  return (result.data as { jobId: string }).jobId
}

function firstRun({ parallel }: JobScene) {
  const [run] = parallel.runs
  if (run === undefined) throw new Error('no run arrived')
  return run
}

describe('a task from submit to collect', () => {
  test('T03 R45 is answered at once, fetched, and ends only when its result is stored', async () => {
    const { scene, invocation } = await open()
    const jobId = await submitTask(scene, invocation)
    const [request] = scene.parallel.requests
    expect(request?.headers).toMatchObject({ 'x-api-key': PARALLEL_KEY, 'parallel-beta': 'webhook-2025-08-12' })
    expect(request?.headers['x-stainless-retry-count']).toBe('0')
    expect(request?.body).toMatchObject({
      input: TASK.subject,
      processor: 'core',
      metadata: { job_id: jobId },
      webhook: { event_types: ['task_run.status'] },
      task_spec: {
        output_schema: { type: 'json', json_schema: { required: ['founded', 'head'], additionalProperties: false } },
      },
    })

    // The callback carries no result: the job has not ended yet, and nobody is told that it has.
    expect(await scene.parallel.deliver(firstRun(scene))).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ id: jobId, state: 'running', result: null }])
    expect(scene.parallel.results()).toBe(0)
    expect((await scene.call(invocation, 'research.collect_task', { jobId })).data).toMatchObject({
      state: 'running',
      fields: [],
    })

    await scene.w.engine.settle()
    expect(scene.parallel.results()).toBe(1)
    const [row] = await usageRows(db.database)
    expect(row).toMatchObject({
      provider: 'parallel',
      item: 'task.core',
      quantity: { runs: 1, estimated: 1 },
      cost_cents: 2.5,
    })
    expect(await jobRows(db.database)).toMatchObject([
      { state: 'completed', cost: { processor: 'core' }, usage_id: row?.['id'] },
    ])

    const read = await scene.call(invocation, 'research.collect_task', { jobId })
    expect(read.data).toEqual({
      jobId,
      state: 'completed',
      accepted: true,
      fields: ['founded', 'head'].map((name) => ({
        name,
        value: `${name} of ${TASK.subject}`,
        confidence: 'high',
        sources: [`https://example.com/${name}`],
        result: 'answered',
      })),
      diagnostics: { missing: 0, malformed: 0, unknown: 0 },
    })

    await scene.parallel.deliver(firstRun(scene))
    await scene.w.engine.settle()
    expect(scene.parallel.results()).toBe(1)
    expect(await usageRows(db.database)).toHaveLength(1)
    expect(await claimRows(db.database)).toHaveLength(1)
    expect(dropsOf(scene)).toEqual({ 'parallel duplicate': 1 })
  })

  test('T01 is not sent twice: an answer that was lost is made up for by the callback', async () => {
    const { scene, invocation } = await open()
    scene.parallel.play({ kind: 'lost_answer' })
    const jobId = await submitTask(scene, invocation)
    expect(await submitTask(scene, invocation)).toBe(jobId)
    await scene.parallel.deliver(firstRun(scene))
    expect(await jobRows(db.database)).toMatchObject([{ provider_job_id: firstRun(scene).id, state: 'running' }])
    await scene.w.engine.settle()
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
    expect(scene.parallel.runs).toHaveLength(1)
  })

  test('T02 whose callback comes before its answer ends all the same', async () => {
    const { scene, invocation } = await open({ parallel: { callsBack: 'before_answer' } })
    const jobId = await submitTask(scene, invocation)
    await scene.w.engine.settle()
    expect((await scene.call(invocation, 'research.collect_task', { jobId })).data).toMatchObject({
      state: 'completed',
    })
  })

  test('that failed or was stopped has nothing to fetch, and ends with the callback', async () => {
    const { scene, invocation } = await open()
    await submitTask(scene, invocation)
    await submitTask(scene, { ...invocation, stepPath: 'b' })
    const [failed, stopped] = scene.parallel.runs
    if (failed === undefined || stopped === undefined) throw new Error('two runs were started')
    await scene.parallel.deliver(failed, { status: 'failed' })
    await scene.parallel.deliver(stopped, { status: 'cancelled' })
    const states = (await jobRows(db.database)).map(({ state }) => state)
    expect(new Set(states)).toEqual(new Set(['failed', 'cancelled']))
    await scene.w.engine.settle()
    expect(scene.parallel.results()).toBe(0)
    // The vendor does not say that such a run is free.
    expect(await usageRows(db.database)).toHaveLength(2)
  })
})

describe('the fetch of a result', () => {
  const TROUBLES: readonly { readonly says: string; readonly fault: VendorFault }[] = [
    { says: 'a rate limit', fault: { kind: 'answer', status: 429 } },
    { says: 'a failure', fault: { kind: 'answer', status: 500 } },
    { says: 'a run that is not done after all', fault: { kind: 'answer', status: 408 } },
    { says: 'half a JSON', fault: { kind: 'malformed' } },
    { says: 'a page for people', fault: { kind: 'html' } },
    { says: 'another shape', fault: { kind: 'answer', status: 200, body: { run: {}, output: null } } },
    { says: 'a connection that broke', fault: { kind: 'lost_answer' } },
  ]

  test.each(TROUBLES)('is tried again after $says, and charged once', async ({ fault }) => {
    const { scene, invocation } = await open()
    await submitTask(scene, invocation)
    await scene.parallel.deliver(firstRun(scene))
    scene.parallel.play(fault, fault)
    await scene.w.engine.settle()
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
    expect(scene.parallel.requests.filter(({ method }) => method === 'GET')).toHaveLength(3)
    expect(await usageRows(db.database)).toHaveLength(1)
  })

  test('that never succeeds is reported once, and the job stays where it is', async () => {
    const { scene, invocation } = await open()
    await submitTask(scene, invocation)
    await scene.parallel.deliver(firstRun(scene))
    scene.parallel.play(...Array.from({ length: 13 }, (): VendorFault => ({ kind: 'answer', status: 500 })))
    await scene.w.engine.settle()
    expect(scene.reports).toEqual(['Error: parallel: the result of an ended job could not be fetched'])
    expect(await jobRows(db.database)).toMatchObject([{ state: 'running', result: null }])
    expect(await usageRows(db.database)).toEqual([])
  })

  test('keeps a large result apart, and sends the key nowhere else', async () => {
    const elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: {} }) })
    try {
      const output = () => ({ type: 'json', content: { founded: '1990', head: 'x'.repeat(64 * 1024) }, basis: [] })
      const { scene, invocation } = await open({ parallel: { output } })
      const jobId = await submitTask(scene, invocation)
      await scene.parallel.deliver(firstRun(scene))
      scene.parallel.play({ kind: 'redirect', to: elsewhere.url })
      await scene.w.engine.settle()
      expect(elsewhere.requests).toEqual([])
      expect(await jobRows(db.database)).toMatchObject([
        { state: 'completed', result: { kind: 'provider_job.result' } },
      ])
      const { data } = await scene.call(invocation, 'research.collect_task', { jobId })
      expect(data).toMatchObject({
        fields: [{ value: '1990' }, { value: expect.stringMatching(/^x{499}…$/) as string }],
      })
    } finally {
      await elsewhere.close()
    }
  })
})

describe('T06 a callback of a task', () => {
  test('T06 is believed with a fitting signature of the last five minutes, and of this job', async () => {
    const { scene, invocation } = await open()
    await submitTask(scene, invocation)
    scene.parallel.play({ kind: 'lost_answer' })
    await submitTask(scene, { ...invocation, stepPath: 'b' })
    const [first, second] = scene.parallel.runs
    if (first === undefined || second === undefined) throw new Error('two runs were started')
    const before = await jobRows(db.database)
    expect(await scene.parallel.deliver(first, { secret: 'another secret' })).toBe(401)
    expect(await scene.parallel.deliver(first, { offS: -301 })).toBe(401)
    expect(await scene.parallel.deliver(first, { offS: 302 })).toBe(401)
    expect(await scene.parallel.deliver(first, { runId: second.id })).toBe(200)
    expect(await scene.parallel.deliver(first, { url: second.webhookUrl ?? '' })).toBe(200)
    expect(await scene.parallel.deliver(second, { metadata: null })).toBe(200)
    expect(await scene.parallel.deliver(second, { status: 'on_fire' })).toBe(200)
    expect(await jobRows(db.database)).toEqual(before)
    expect(dropsOf(scene)).toEqual({
      'parallel bad_signature': 3,
      'parallel job_mismatch': 1,
      'parallel name_mismatch': 2,
      'parallel unreadable': 1,
    })
    for (const status of ['queued', 'running', 'action_required', 'cancelling'])
      expect(await scene.parallel.deliver(second, { status })).toBe(200)
    expect(await claimRows(db.database)).toEqual([])
    expect(await scene.parallel.deliver(second, { offS: -290 })).toBe(200)
    await scene.w.engine.settle()
    expect(new Set((await jobRows(db.database)).map(({ state }) => state))).toEqual(new Set(['submitted', 'completed']))
  })
})
