import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startVendorServer, type VendorFault } from '../simulators/vendor-server.ts'
import { jobIdOf } from '../src/provider-jobs/job-id.ts'
import { providerJobStore } from '../src/storage/provider-job-store.ts'
import { unnamed } from '../src/storage/statement.ts'
import type { JsonObject } from '../src/tools/json.ts'
import { FULLENRICH_KEY } from './provider-job-parts.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import {
  collect,
  CONTACTS,
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

/** As if the journal of the tool had expired. */
const forgetJournal = () => db.database.query(unnamed(`DELETE FROM agent.idempotency_keys WHERE scope LIKE 'tool.%'`))

describe('a submit', () => {
  test('sends work-email fields and the ref, and nothing that was not asked for', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation, [
      {
        ref: 'a',
        firstName: 'Sample',
        lastName: 'Person',
        domain: 'https://WWW.Freight.test/about',
        company: 'Sample Freight',
      },
      { ref: 'b', firstName: 'Other', lastName: 'Person', linkedinUrl: 'nl.linkedin.com/in/Other-Person/?utm=1' },
    ])
    const [request] = scene.fullenrich.requests
    expect(request?.headers.authorization).toBe(`Bearer ${FULLENRICH_KEY}`)
    expect(request?.body).toEqual({
      name: `agentic:${jobId}`,
      webhook_url: `http://127.0.0.1:4400/api/v1/agentic/webhooks/fullenrich/${jobId}`,
      data: [
        {
          first_name: 'Sample',
          last_name: 'Person',
          domain: 'freight.test',
          company_name: 'Sample Freight',
          enrich_fields: ['contact.work_emails'],
          custom: { ref: 'a' },
        },
        {
          first_name: 'Other',
          last_name: 'Person',
          linkedin_url: 'https://www.linkedin.com/in/other-person',
          enrich_fields: ['contact.work_emails'],
          custom: { ref: 'b' },
        },
      ],
    })
    const [job] = (await scene.jobs.listing.list(invocation.organizationId, { limit: 10, cursor: null })).items
    const span = (await scene.w.spans(invocation.runId)).find(({ name }) => name === 'fullenrich.submit')
    expect(job).toMatchObject({
      id: jobId,
      provider: 'fullenrich',
      providerJobId: firstBatch(scene).id,
      contactRefs: ['a', 'b'],
      state: 'submitted',
      runId: invocation.runId,
      rootRunId: invocation.runId,
      toolCallId: (span as { id?: string } | undefined)?.id,
      usageId: null,
    })
  })

  test('R34 writes no usage row: the cost is not known yet, and the call is no fault for that', async () => {
    const { scene, invocation } = await open()
    const result = await scene.call(invocation, 'fullenrich.submit', { contacts: CONTACTS })
    expect(result).toMatchObject({ ok: true, data: { accepted: true } })
    expect(result.meta.usageId).toBeUndefined()
    expect(await usageRows(db.database)).toEqual([])
  })

  test('is refused over the budget of its run before anything is reserved', async () => {
    const { scene, invocation } = await open()
    await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    const capped = { ...invocation, stepPath: 'later', ceilings: { ...invocation.ceilings, maxCostCents: 5 } }
    const result = await scene.call(capped, 'fullenrich.submit', { contacts: CONTACTS })
    expect(result.error?.code).toBe('budget_exhausted')
    expect(await jobRows(db.database)).toHaveLength(1)
    expect(scene.fullenrich.requests).toHaveLength(1)
  })

  test('outside a run tree is a fault, and reserves nothing', async () => {
    const { scene, invocation } = await open()
    const call = scene.w.core.invoker.invoke(
      { toolName: 'fullenrich.submit', args: { contacts: CONTACTS } },
      invocation,
    )
    await expect(call).resolves.toMatchObject({ ok: false, stop: 'fault' })
    expect(await jobRows(db.database)).toEqual([])
  })
})

describe('T01 a submit that is made again', () => {
  test('T01 is the same job and asks the vendor nothing, with the journal and without it', async () => {
    const { scene, invocation } = await open()
    const first = await submit(scene, invocation)
    expect(await submit(scene, invocation)).toBe(first)
    await forgetJournal()
    expect(await submit(scene, invocation)).toBe(first)
    expect(scene.fullenrich.requests).toHaveLength(1)
    expect(await jobRows(db.database)).toHaveLength(1)
  })

  test('T01 is the same job after an answer that was lost, and after a refusal', async () => {
    const { scene, invocation } = await open()
    scene.fullenrich.play({ kind: 'lost_answer' }, { kind: 'answer', status: 401 })
    const lost = await submit(scene, invocation)
    const refused = { ...invocation, stepPath: 'refused' }
    await expect(submit(scene, refused)).rejects.toThrow('the key is not accepted')
    await forgetJournal()
    expect(await submit(scene, invocation)).toBe(lost)
    const again = await scene.call(refused, 'fullenrich.submit', { contacts: CONTACTS })
    expect(again).toMatchObject({ ok: true, data: { accepted: false } })
    expect(scene.fullenrich.requests).toHaveLength(2)
    expect(await jobRows(db.database)).toHaveLength(2)
  })

  test('in another step, or with other contacts, is another job', async () => {
    const { scene, invocation } = await open()
    const ids = [
      await submit(scene, invocation),
      await submit(scene, { ...invocation, stepPath: 'b' }),
      await submit(scene, invocation, CONTACTS.slice(0, 1)),
    ]
    expect(new Set(ids).size).toBe(3)
    expect(scene.fullenrich.batches.map(({ name }) => name)).toEqual(ids.map((id) => `agentic:${id}`))
  })

  test('the one that wins the insert posts, of any number at the same time', async () => {
    const { invocation } = await open()
    const pools = [db.database, await db.another()].map((database) => providerJobStore(database))
    const { organizationId, runId } = invocation
    const argsHash = 'f'.repeat(64)
    const id = jobIdOf({ organizationId, runId, stepPath: 'agent', provider: 'fullenrich', argsHash })
    const job = {
      id,
      organizationId,
      rootRunId: runId,
      runId,
      toolCallId: runId,
      provider: 'fullenrich',
      contactRefs: ['a'],
    }
    const reserved = await Promise.all([...pools, ...pools, ...pools, ...pools].map((pool) => pool.reserve(job)))
    expect(reserved.filter(({ won }) => won)).toHaveLength(1)
    expect(new Set(reserved.map((one) => one.job.id))).toEqual(new Set([id]))
  })
})

interface OutcomeRow {
  readonly says: string
  readonly fault: VendorFault
  /** `unknown` is answered with the job, `refused` is raised. */
  readonly becomes: 'unknown' | 'refused'
}

const OUTCOMES: readonly OutcomeRow[] = [
  { says: 'an answer that was lost', fault: { kind: 'lost_answer' }, becomes: 'unknown' },
  { says: 'a connection that broke', fault: { kind: 'reset' }, becomes: 'unknown' },
  { says: 'no answer in time', fault: { kind: 'hang' }, becomes: 'unknown' },
  { says: 'a body that stops in the middle', fault: { kind: 'stalled_body' }, becomes: 'unknown' },
  { says: 'half a JSON', fault: { kind: 'malformed' }, becomes: 'unknown' },
  { says: 'a page for people', fault: { kind: 'html' }, becomes: 'unknown' },
  { says: 'a success without a body', fault: { kind: 'empty_body' }, becomes: 'unknown' },
  { says: 'a failure of the vendor', fault: { kind: 'answer', status: 500 }, becomes: 'unknown' },
  { says: 'a vendor that is overloaded', fault: { kind: 'answer', status: 503 }, becomes: 'unknown' },
  { says: 'a wrong key', fault: { kind: 'answer', status: 401 }, becomes: 'refused' },
  { says: 'an empty account', fault: { kind: 'answer', status: 402 }, becomes: 'refused' },
  {
    says: 'a refused request',
    fault: { kind: 'answer', status: 400, body: { code: 'error.enrichment.data.empty' } },
    becomes: 'refused',
  },
  { says: 'a rate limit', fault: { kind: 'answer', status: 429, headers: { 'retry-after': '1' } }, becomes: 'refused' },
  { says: 'a refusal by law', fault: { kind: 'answer', status: 451 }, becomes: 'refused' },
]

describe('what becomes of the one request', () => {
  test.each(OUTCOMES)(
    'after $says the reservation stays, $becomes, and nothing is sent twice',
    async ({ fault, becomes }) => {
      const { scene, invocation } = await open()
      scene.fullenrich.play(fault)
      const call = scene.call(invocation, 'fullenrich.submit', { contacts: CONTACTS })
      if (becomes === 'unknown') await expect(call).resolves.toMatchObject({ ok: true, data: { accepted: false } })
      else await expect(call).rejects.toMatchObject({ name: 'VendorError' })
      expect(await jobRows(db.database)).toMatchObject([{ state: 'submitted', provider_job_id: null }])
      expect(scene.fullenrich.requests).toHaveLength(1)
      expect(await usageRows(db.database)).toEqual([])
      expect((await scene.call(invocation, 'fullenrich.submit', { contacts: CONTACTS })).ok).toBe(true)
      expect(scene.fullenrich.requests).toHaveLength(1)
    },
  )

  test('a redirect is not followed, and the key goes nowhere else', async () => {
    const elsewhere = await startVendorServer({ behaviour: () => ({ status: 200, body: { enrichment_id: 'x' } }) })
    try {
      const { scene, invocation } = await open()
      scene.fullenrich.play({ kind: 'redirect', to: `${elsewhere.url}/contact/enrich/bulk` })
      await expect(submit(scene, invocation)).rejects.toThrow('redirect')
      expect(elsewhere.requests).toEqual([])
      expect(await jobRows(db.database)).toMatchObject([{ state: 'submitted' }])
    } finally {
      await elsewhere.close()
    }
  })

  test('an id that the vendor gave to another job before is a fault, and neither job is changed', async () => {
    const { scene, invocation } = await open()
    scene.fullenrich.play(
      { kind: 'answer', status: 200, body: { enrichment_id: 'twice' } },
      { kind: 'answer', status: 200, body: { enrichment_id: 'twice' } },
    )
    await submit(scene, invocation)
    await expect(submit(scene, { ...invocation, stepPath: 'b' })).rejects.toThrow('another id')
    const ids = (await jobRows(db.database)).map((row) => row['provider_job_id'])
    expect(new Set(ids)).toEqual(new Set(['twice', null]))
  })
})

describe('a collect', () => {
  test('T08 R50 answers the same however often it is made, asks nobody, costs nothing and starts nothing', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene))
    await scene.w.engine.settle()
    const stored = await jobRows(db.database)
    const answers = [await collect(scene, invocation, jobId), await collect(scene, invocation, jobId)]
    expect(answers[1]?.data).toEqual(answers[0]?.data)
    expect(answers.every(({ meta }) => meta.usageId === undefined)).toBe(true)
    expect(await usageRows(db.database)).toHaveLength(1)
    expect(await jobRows(db.database)).toEqual(stored)
    expect(scene.fullenrich.requests).toHaveLength(1)
  })

  test('an unknown job, one of another provider and one of another organization all read the same', async () => {
    const { scene, invocation } = await open()
    const other = await open({ world: { slug: 'other' } })
    const theirs = await submit(other.scene, other.invocation)
    const ours = await submit(scene, invocation)
    const answers = [
      await collect(scene, invocation, '0192f0c1-0000-8000-8000-00000000beef'),
      await collect(scene, invocation, theirs),
      await scene.call(invocation, 'research.collect_task', { jobId: ours }),
    ]
    expect(new Set(answers.map(({ error }) => JSON.stringify(error))).size).toBe(1)
    expect(answers[0]?.error?.code).toBe('not_found')
  })

  test('a result that the row points to and that is gone is a fault, and never an empty success', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    const filler = (body: object) => ({ ...body, filler: 'x'.repeat(64 * 1024) })
    await scene.fullenrich.deliver(firstBatch(scene), { body: filler })
    await db.database.query(unnamed('DELETE FROM agent.provider_job_results'))
    await expect(collect(scene, invocation, jobId)).rejects.toThrow('is missing')
    const foreign: JsonObject = { kind: 'provider_job.result', id: `${invocation.runId}/${'0'.repeat(64)}` }
    await db.database.query(unnamed('UPDATE agent.provider_jobs SET result = $1'), [JSON.stringify(foreign)])
    await expect(collect(scene, invocation, jobId)).rejects.toThrow('not its own')
  })

  test('a batch that was stopped keeps what it had found, and is no failure', async () => {
    const { scene, invocation } = await open()
    const jobId = await submit(scene, invocation)
    await scene.fullenrich.deliver(firstBatch(scene), { status: 'CANCELED' })
    expect((await collect(scene, invocation, jobId)).data).toMatchObject({
      state: 'cancelled',
      reason: 'cancelled',
      contacts: [
        { ref: 'a', result: 'found' },
        { ref: 'b', result: 'not_found' },
      ],
    })
  })
})
