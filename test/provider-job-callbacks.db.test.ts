import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Instrument } from '../src/core.ts'
import { decideJobWait, jobWaitUntil } from '../src/provider-jobs/wait.ts'
import { listen } from '../src/server/listen.ts'
import { unnamed } from '../src/storage/statement.ts'
import { FORMER_KEY, PUBLIC_URL } from './provider-job-parts.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import {
  claimRows,
  collect,
  dropsOf,
  firstBatch,
  jobApp,
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
  const invocation = await scene.w.invocation()
  return { scene, invocation }
}

describe('a batch from submit to collect', () => {
  test('R33 R45 R47 waits as a row, ends by its callback, is paid for once, and is read from the row', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    expect((await collect(scene, invocation, jobId)).data).toEqual({
      jobId,
      state: 'running',
      accepted: true,
      reason: null,
      contacts: [],
      diagnostics: null,
    })
    expect(await usageRows(db.database)).toEqual([])

    expect(await scene.fullenrich.deliver(firstBatch(scene))).toBe(200)
    const [stored] = await jobRows(db.database)
    expect(stored).toMatchObject({ id: jobId, state: 'completed', cost: { credits: 1 }, usage_id: null })

    await scene.w.engine.settle()
    const [row, ...others] = await usageRows(db.database)
    expect(others).toEqual([])
    expect(row).toMatchObject({
      run_id: invocation.runId,
      root_run_id: invocation.runId,
      provider: 'fullenrich',
      item: 'work-email',
      quantity: { credits: 1 },
      cost_cents: 5.8,
    })
    const [settled] = await jobRows(db.database)
    expect(settled).toMatchObject({ usage_id: row?.['id'] })
    const span = (await scene.w.spans(invocation.runId)).find(({ name }) => name === 'fullenrich.submit')
    expect(span?.attributes['usageId']).toBe(row?.['id'])

    const read = await collect(scene, invocation, jobId)
    expect(read.meta.untrusted).toBe(true)
    expect(read.data).toMatchObject({
      state: 'completed',
      contacts: [
        {
          ref: 'a',
          email: 'sample.person@freight.test',
          providerStatus: 'DELIVERABLE',
          confidence: 'verified',
          result: 'found',
        },
        { ref: 'b', email: null, providerStatus: null, confidence: null, result: 'not_found' },
      ],
      diagnostics: { missing: 0, duplicate: 0, malformed: 0, unknown: 0 },
    })
    expect(scene.fullenrich.requests).toHaveLength(1)
    expect(dropsOf(scene)).toEqual({})
  })
})

describe('who is believed', () => {
  test('R46 nothing reaches the database before the signature has passed', async () => {
    const verbs: string[] = []
    const { scene, invocation } = await open({ instrument: recording(verbs) })
    await submit(scene, invocation)
    verbs.length = 0
    const batch = firstBatch(scene)
    expect(await scene.fullenrich.deliver(batch, { key: 'another key' })).toBe(401)
    expect(await scene.fullenrich.deliver(batch, { key: 'another key', url: `${HOOK}/fullenrich/nonsense` })).toBe(401)
    expect(await scene.fullenrich.deliver(batch, { url: `${HOOK}/nobody/${UNKNOWN}` })).toBe(404)
    expect(verbs).toEqual([])
    expect(await scene.fullenrich.deliver(batch)).toBe(200)
    expect(verbs).toEqual(['find', 'advance', 'claim', 'completed', 'finish', 'wake'])
  })

  test('T06 a callback whose signature does not fit changes nothing, whatever is wrong with it', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const before = await jobRows(db.database)
    const batch = firstBatch(scene)
    const { headers, body } = scene.fullenrich.callback(batch)
    const signature = headers['x-signature-sha1'] ?? ''
    const post = async (given: Record<string, string>, bytes: Uint8Array<ArrayBuffer> = body): Promise<number> =>
      (await scene.app.request(batch.webhookUrl ?? '', { method: 'POST', headers: given, body: bytes })).status
    const reformatted = new Uint8Array(Buffer.from(JSON.stringify(JSON.parse(Buffer.from(body).toString('utf8')))))
    expect(await post({})).toBe(401)
    expect(await post({ 'x-signature-sha1': '' })).toBe(401)
    expect(await post({ 'x-signature-sha1': signature.toUpperCase() })).toBe(401)
    expect(await post({ 'x-signature-sha1': `sha1=${signature}` })).toBe(401)
    expect(await post({ 'x-signature-sha1': `${signature}, ${signature}` })).toBe(401)
    expect(await post({ 'x-signature-sha1': signature }, reformatted)).toBe(401)
    expect(await jobRows(db.database)).toEqual(before)
    expect(await claimRows(db.database)).toEqual([])
    expect(dropsOf(scene)).toEqual({ 'fullenrich bad_signature': 6 })
  })

  test('a key of the account from before is still believed while batches are out', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    expect(await scene.fullenrich.deliver(firstBatch(scene), { key: FORMER_KEY })).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
  })

  test('an address that keeps sending wrong signatures is refused before its bodies are looked at', async () => {
    const { scene, invocation } = await open({ world: { now: () => new Date('2026-05-04T10:02:00.000Z') } })
    await submit(scene, invocation)
    const app = jobApp(scene.w, true)
    const batch = firstBatch(scene)
    const from = async (address: string, key?: string) => {
      const { headers, body } = scene.fullenrich.callback(batch, key === undefined ? {} : { key })
      const forwarded = { ...headers, 'x-forwarded-for': `10.0.0.1, ${address}` }
      return app.request(batch.webhookUrl ?? '', { method: 'POST', headers: forwarded, body })
    }
    const statuses: number[] = []
    for (let sent = 0; sent < 40; sent += 1) statuses.push((await from('198.51.100.7', 'wrong')).status)
    expect(statuses.filter((status) => status === 401)).toHaveLength(30)
    const refused = await from('198.51.100.7')
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect((await from('198.51.100.8')).status).toBe(200)
  })
})

describe('what is dropped', () => {
  test('T05 a callback for a job that is unknown is acknowledged and counted', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const batch = firstBatch(scene)
    for (const id of [UNKNOWN, 'nonsense', invocation.runId, jobId.toUpperCase()])
      expect(await scene.fullenrich.deliver(batch, { url: `${HOOK}/fullenrich/${id}` })).toBe(200)
    expect(await scene.fullenrich.deliver(batch, { url: `${HOOK}/parallel/${jobId}` })).toBe(401)
    await db.database.query(unnamed('DELETE FROM agent.runs WHERE id = $1'), [invocation.runId])
    expect(await jobRows(db.database)).toEqual([])
    expect(await scene.fullenrich.deliver(batch)).toBe(200)
    expect(dropsOf(scene)).toEqual({ 'fullenrich unknown_job': 5, 'parallel bad_signature': 1 })
    expect(await claimRows(db.database)).toEqual([])
  })

  test('T04 a callback about an earlier state changes nothing', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const batch = firstBatch(scene)
    await scene.fullenrich.deliver(batch)
    const ended = await jobRows(db.database)
    for (const status of ['CREATED', 'IN_PROGRESS']) expect(await scene.fullenrich.deliver(batch, { status })).toBe(200)
    expect(await jobRows(db.database)).toEqual(ended)
    expect(dropsOf(scene)).toEqual({ 'fullenrich not_terminal': 2 })
  })

  test('progress is stored, takes no claim and wakes nobody, and the end that follows is no conflict', async () => {
    const verbs: string[] = []
    const { scene, invocation } = await open({ instrument: recording(verbs) })
    await submit(scene, invocation)
    const batch = firstBatch(scene)
    verbs.length = 0
    expect(await scene.fullenrich.deliver(batch, { status: 'IN_PROGRESS' })).toBe(200)
    expect(verbs).toEqual(['find', 'advance'])
    expect(await jobRows(db.database)).toMatchObject([{ state: 'running', result: null, cost: { credits: 1 } }])
    expect(await scene.fullenrich.deliver(batch)).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
    expect(dropsOf(scene)).toEqual({ 'fullenrich not_terminal': 1 })
  })

  test('T03 R48 one callback delivered twice is one transition and one usage row', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const batch = firstBatch(scene)
    await scene.fullenrich.deliver(batch)
    const stored = await jobRows(db.database)
    await scene.fullenrich.deliver(batch)
    expect(await jobRows(db.database)).toEqual(stored)
    await scene.w.engine.settle()
    await scene.fullenrich.deliver(batch)
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toHaveLength(1)
    expect(await claimRows(db.database)).toHaveLength(1)
    expect(dropsOf(scene)).toEqual({ 'fullenrich duplicate': 2 })
  })

  test('R48 a second end of another kind changes nothing, and its cost is not paired with the first one', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const batch = firstBatch(scene)
    await scene.fullenrich.deliver(batch)
    const stored = await jobRows(db.database)
    const other = { status: 'CANCELED', body: (body: object) => ({ ...body, cost: { credits: 99 }, data: [] }) }
    expect(await scene.fullenrich.deliver(batch, other)).toBe(200)
    expect(await jobRows(db.database)).toEqual(stored)
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toMatchObject([{ quantity: { credits: 1 } }])
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({ state: 'completed' })
    expect(dropsOf(scene)).toEqual({ 'fullenrich delivery_conflict': 1 })
  })

  test('a signed callback that cannot be read is acknowledged, counted, and reported without what it holds', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const batch = firstBatch(scene)
    const before = await jobRows(db.database)
    const bodies: ((body: object) => unknown)[] = [
      () => 'sample.person@freight.test',
      () => [],
      (body) => ({ ...body, id: '' }),
      (body) => ({ ...body, status: 'sample.person@freight.test' }),
      (body) => ({ ...body, name: null }),
    ]
    for (const body of bodies) expect(await scene.fullenrich.deliver(batch, { body })).toBe(200)
    expect(await jobRows(db.database)).toEqual(before)
    expect(dropsOf(scene)).toEqual({ 'fullenrich unreadable': bodies.length })
    expect(scene.reports).toHaveLength(bodies.length)
    expect(scene.reports.join()).not.toContain('person')
  })
})

describe('whose job a callback is about', () => {
  test('before the vendor id is known, the signed name has to be the name of this very job', async () => {
    const { scene, invocation } = await open()
    scene.fullenrich.play({ kind: 'lost_answer' }, { kind: 'lost_answer' })
    const first = await submit(scene, invocation)
    const second = await submit(scene, { ...invocation, stepPath: 'other' })
    const [batch, other] = scene.fullenrich.batches
    if (batch === undefined || other === undefined) throw new Error('two batches were sent')
    expect(await scene.fullenrich.deliver(batch, { name: 'agentic:' })).toBe(200)
    expect(await scene.fullenrich.deliver(batch, { name: first })).toBe(200)
    expect(await scene.fullenrich.deliver(other, { url: batch.webhookUrl ?? '' })).toBe(200)
    expect(dropsOf(scene)).toEqual({ 'fullenrich name_mismatch': 3 })
    expect(await jobRows(db.database)).toMatchObject([{ provider_job_id: null }, { provider_job_id: null }])

    // The vendor's id belongs to one job, and to no second one.
    expect(await scene.fullenrich.deliver(batch)).toBe(200)
    expect(await scene.fullenrich.deliver(other, { id: batch.id })).toBe(200)
    expect(dropsOf(scene)).toEqual({ 'fullenrich name_mismatch': 3, 'fullenrich job_mismatch': 1 })
    const states = new Map((await jobRows(db.database)).map((row) => [row['id'], row['state']]))
    expect([states.get(first), states.get(second)]).toEqual(['completed', 'submitted'])
  })

  test('once the vendor id is known, a body that names another one is dropped', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const before = await jobRows(db.database)
    expect(await scene.fullenrich.deliver(firstBatch(scene), { id: 'another-batch' })).toBe(200)
    expect(await jobRows(db.database)).toEqual(before)
    expect(dropsOf(scene)).toEqual({ 'fullenrich job_mismatch': 1 })
  })

  test('R46 the claim is made for the organization that the row names', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    const { id } = firstBatch(scene)
    expect(await claimRows(db.database)).toEqual([
      { organization_id: invocation.organizationId, scope: 'webhook.fullenrich', key: id, status: 'completed' },
    ])
  })
})

describe('callbacks and answers in any order', () => {
  test('T02 a callback that comes before the submit is answered is kept, and a wait finds it at once', async () => {
    const { scene, invocation } = await open({ fullenrich: { callsBack: 'before_answer' } })
    const jobId = await submit(scene, invocation)
    const job = await scene.jobs.listing.get(invocation.organizationId, jobId)
    const now = new Date()
    const until = jobWaitUntil({ from: now, timeoutS: 600, deadline: invocation.deadline })
    expect(decideJobWait({ job, now, until })).toEqual({ kind: 'ended', state: 'completed' })
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed', provider_job_id: firstBatch(scene).id }])
  })

  test('an answer that was lost is made up for by the callback', async () => {
    const { scene, invocation } = await open()
    scene.fullenrich.play({ kind: 'lost_answer' })
    const jobId = await submit(scene, invocation)
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({ state: 'running', accepted: false })
    await scene.fullenrich.deliver(firstBatch(scene))
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({ state: 'completed', accepted: true })
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toHaveLength(1)
  })
})

describe('large and odd bodies', () => {
  test('a body of 1.9 MiB is kept apart and collected whole; one of 2.1 MiB is refused', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const batch = firstBatch(scene)
    expect(await scene.fullenrich.deliver(batch, { bytes: Math.ceil(2.1 * MIB) })).toBe(413)
    expect(await scene.fullenrich.deliver(batch, { bytes: 2 * MIB + 1 })).toBe(413)
    const filler = (body: object) => ({ ...body, filler: 'x'.repeat(Math.ceil(1.9 * MIB)) })
    expect(await scene.fullenrich.deliver(batch, { body: filler })).toBe(200)
    const [row] = await jobRows(db.database)
    expect(row).toMatchObject({ state: 'completed', result: { kind: 'provider_job.result' } })
    const { rows } = await db.database.query(
      unnamed(
        `SELECT job_id || '/' || encode(result_digest, 'hex') AS id, length(result ->> 'filler') AS filler FROM agent.provider_job_results`,
      ),
    )
    const { id } = (row?.['result'] ?? {}) as { id?: string }
    expect(rows).toEqual([{ id, filler: Math.ceil(1.9 * MIB) }])
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({
      contacts: [{ result: 'found' }, { result: 'not_found' }],
    })
    expect(dropsOf(scene)).toEqual({ 'fullenrich too_large': 2 })
  })

  test('a body that is exactly at the limit is taken', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    expect(await scene.fullenrich.deliver(firstBatch(scene), { bytes: 2 * MIB })).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
  })

  test('a result that cannot be kept keeps the job where it is, and the vendor is asked to send again', async () => {
    let fails = true
    const { scene, invocation } = await open({
      instrument: failing('keepResult', () => fails),
    })
    await submit(scene, invocation)
    const filler = (body: object) => ({ ...body, filler: 'x'.repeat(64 * 1024) })
    expect(await scene.fullenrich.deliver(firstBatch(scene), { body: filler })).toBe(500)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'submitted', result: null }])
    fails = false
    expect(await scene.fullenrich.deliver(firstBatch(scene), { body: filler })).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
  })

  test('R47 the transition is stored before anybody is told, and a failed event is made up for by the next delivery', async () => {
    let fails = true
    const { scene, invocation } = await open({ instrument: failing('completed', () => fails) })
    await submit(scene, invocation)
    expect(await scene.fullenrich.deliver(firstBatch(scene))).toBe(500)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed', usage_id: null }])
    fails = false
    expect(await scene.fullenrich.deliver(firstBatch(scene))).toBe(200)
    await scene.w.engine.settle()
    expect(await usageRows(db.database)).toHaveLength(1)
  })

  test('text that a database cannot hold costs the characters and not the result', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const odd = (body: object) => ({ ...body, note: 'a\u0000b\ud800c', 'k\u0000': 1 })
    expect(await scene.fullenrich.deliver(firstBatch(scene), { body: odd })).toBe(200)
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed', result: { note: 'ab\ufffdc', k: 1 } }])
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({ contacts: [{ result: 'found' }, {}] })
  })
})

const MIB = 1024 * 1024
const HOOK = `${PUBLIC_URL}/api/v1/agentic/webhooks`
const UNKNOWN = '0192f0c1-0000-8000-8000-00000000beef'

const JOB_PORTS: ReadonlySet<string> = new Set(['provider_jobs', 'provider_events'])

/** Notes every verb of the ports of jobs. */
function recording(verbs: string[]): Instrument {
  return (port, implementation) =>
    JOB_PORTS.has(port) ? around(implementation, async (verb, run) => (verbs.push(verb), run())) : implementation
}

/** Lets one verb fail for as long as it is told to. */
function failing(name: string, fails: () => boolean): Instrument {
  return (port, implementation) =>
    JOB_PORTS.has(port)
      ? around(implementation, async (verb, run) => {
          if (verb === name && fails()) throw new Error('no connection')
          return run()
        })
      : implementation
}

function around<T extends object>(target: T, wrap: (verb: string, run: () => unknown) => Promise<unknown>): T {
  return new Proxy(target, {
    get(object, verb) {
      const member: unknown = Reflect.get(object, verb)
      if (typeof member !== 'function' || typeof verb === 'symbol') return member
      return (...given: unknown[]) => wrap(verb, () => Reflect.apply(member, object, given) as unknown)
    },
  })
}

describe('over a socket', () => {
  test('a body that is too large is refused while it is still being sent, and the next one is taken', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    const batch = firstBatch(scene)
    const listening = await listen({
      host: '127.0.0.1',
      port: 0,
      fetch: (request, env) => scene.app.fetch(request, env),
    })
    try {
      const url = `${listening.url}${new URL(batch.webhookUrl ?? '').pathname}`
      const post = async (body: Uint8Array<ArrayBuffer> | ReadableStream, headers: Readonly<Record<string, string>>) =>
        (await fetch(url, { method: 'POST', headers, body, duplex: 'half' })).status
      const { headers, body } = scene.fullenrich.callback(batch, { bytes: 3 * MIB })
      expect(await post(body, headers)).toBe(413)
      // Without a length nobody knows before it is read.
      expect(await post(new Blob([body]).stream(), headers)).toBe(413)
      const usual = scene.fullenrich.callback(batch)
      expect(await post(new Blob([usual.body]).stream(), usual.headers)).toBe(200)
    } finally {
      await listening.close(1_000)
    }
    expect(await jobRows(db.database)).toMatchObject([{ state: 'completed' }])
    expect(dropsOf(scene)).toEqual({ 'fullenrich too_large': 2 })
  })
})
