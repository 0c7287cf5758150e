import { describe, expect, test } from 'vitest'
import { PROVIDER_JOB_COMPLETED, RUN_WAKE, inngestEngine } from '../../src/engines/inngest/index.ts'
import { EngineWorkError } from '../../src/runs/engine-work.ts'
import type { AdvanceOutcome } from '../../src/runs/executor.ts'
import { SERVE_URL, served, SIGNING_KEY, SILENT, executor, engineFor } from './app.ts'
import { invocationRequest, signatureOf, stepHash, syncRequest, type Invocation } from './protocol.ts'

const HOUR_MS = 3_600_000
const SECRET = 'password=hunter2'
const idle: AdvanceOutcome = { kind: 'idle' }

const job = (
  run: (payload: unknown, attempt: number) => void = () => undefined,
  failed: (payload: unknown, fault: Error) => void = () => undefined,
) => ({
  retries: 3,
  async run(payload: unknown, attempt: number) {
    run(payload, attempt)
  },
  async onFinalFailure(payload: unknown, fault: Error) {
    failed(payload, fault)
  },
})

describe('what is registered', () => {
  test('each function with its events, retries, limits and failure function', async () => {
    const { server } = await served({
      jobs: { 'provider_job.settle': { ...job(), event: PROVIDER_JOB_COMPLETED }, tidy: job() },
      crons: [{ name: 'resync', every: 3600, run: async () => undefined }],
    })
    expect([...server.functions.keys()].toSorted()).toEqual([
      'bailiff-advance-run',
      'bailiff-advance-run-failure',
      'bailiff-cron-resync',
      'bailiff-job-provider_job.settle',
      'bailiff-job-provider_job.settle-failure',
      'bailiff-job-tidy',
      'bailiff-job-tidy-failure',
      'bailiff-sweep',
    ])
    expect(server.functions.get('bailiff-advance-run')).toMatchObject({
      triggers: [{ event: 'platform/agentic.run.wake.v1' }, { event: 'platform/agentic.run.wake_later.v1' }],
      concurrency: [{ key: 'event.data.data.runId', limit: 1 }, { limit: 20 }],
      steps: { step: { retries: { attempts: 4 } } },
    })
    expect(server.functions.get('bailiff-job-provider_job.settle')).toMatchObject({
      triggers: [{ event: 'platform/agentic.provider_job.completed.v1' }],
      steps: { step: { retries: { attempts: 3 } } },
    })
    expect(server.functions.get('bailiff-job-tidy')?.triggers).toEqual([{ event: 'platform/agentic.job.tidy.v1' }])
    expect(server.functions.get('bailiff-cron-resync')?.triggers).toEqual([{ cron: 'TZ=UTC 0 * * * *' }])
    expect(server.functions.get('bailiff-sweep')?.triggers).toEqual([{ cron: 'TZ=UTC * * * * *' }])
  })

  test('the address that was given, whatever the request for it says', async () => {
    const server = executor()
    const engine = engineFor(server, { serveUrl: 'https://public.test/api/inngest' })
    await engine.start({
      advance: async () => idle,
      sweep: async () => [],
      look: async () => null,
      gaveUp: async () => undefined,
      jobs: {},
      crons: [],
    })
    await server.settle()
    while (server.functions.size === 0) await new Promise((resolve) => setImmediate(resolve))
    await engine.stop(0)
    expect(JSON.stringify([...server.functions.values()])).toContain('https://public.test/api/inngest?')
  })
})

describe('what is refused', () => {
  const invocation: Invocation = {
    fnId: 'bailiff-advance-run',
    runId: 'forged',
    stepId: 'step',
    attempt: 0,
    maxAttempts: 5,
    event: { id: 'e', name: RUN_WAKE, data: { data: { runId: 'r', organizationId: 'o', lane: 'l' } }, ts: 0 },
    steps: new Map(),
  }
  const signing = { url: SERVE_URL, signingKey: SIGNING_KEY }

  async function tried(change: (request: Request) => Request | Promise<Request>) {
    let advances = 0
    const { engine, server } = await served({
      async advance() {
        advances += 1
        return idle
      },
    })
    const registered = server.functions.size
    const answer = await engine.handler(await change(invocationRequest(invocation, signing)))
    return { status: answer.status, advances, registered: server.functions.size - registered }
  }

  test('a signed request is served, so that the refusals below mean something', async () => {
    expect(await tried((request) => request)).toEqual({ status: 206, advances: 1, registered: 0 })
  })

  const refused = { status: 401, advances: 0, registered: 0 }

  test('a request without a signature', async () => {
    const without = (request: Request): Request => {
      request.headers.delete('x-inngest-signature')
      return request
    }
    expect(await tried(without)).toEqual(refused)
  })

  test('a request whose body was changed after it was signed', async () => {
    const changed = async (request: Request): Promise<Request> =>
      new Request(request.url, {
        method: 'POST',
        headers: request.headers,
        body: (await request.text()).replace('"runId":"r"', '"runId":"other"'),
      })
    expect(await tried(changed)).toEqual(refused)
  })

  test('a request that is signed with another key', async () => {
    const other = `signkey-test-${'cd'.repeat(32)}`
    expect(await tried(() => invocationRequest(invocation, { url: SERVE_URL, signingKey: other }))).toEqual(refused)
  })

  test('an unsigned registration, which would name a host of its own, and an unsigned look', async () => {
    for (const method of ['PUT', 'GET'])
      expect(
        await tried(() => new Request('https://evil.test/api/inngest', { method, headers: { host: 'evil.test' } })),
      ).toEqual(refused)
    expect((await tried(() => syncRequest(signing))).status).toBe(200)
  })

  test('a cloud engine without a signing key, and with an empty one', () => {
    expect(() => inngestEngine({ logger: SILENT })).toThrow(EngineWorkError)
    expect(() => inngestEngine({ logger: SILENT, signingKey: '' })).toThrow(EngineWorkError)
  })

  test('a wake-up that is none: the function fails at once and nothing is advanced', async () => {
    let advances = 0
    const { server } = await served({
      async advance() {
        advances += 1
        return idle
      },
    })
    for (const data of [{}, { data: null }, { data: { runId: 7 } }, null])
      await server.fetch('https://inngest.test/e/key', {
        method: 'POST',
        body: JSON.stringify([{ name: RUN_WAKE, data }]),
      })
    await server.settle()
    expect(server.runsOf('bailiff-advance-run').map(({ state }) => state)).toEqual([
      'failed',
      'failed',
      'failed',
      'failed',
    ])
    expect(advances).toBe(0)
  })
})

test('signatures are of canonical JSON and the second they were made', () => {
  expect(signatureOf({ b: 1, a: 2 }, SIGNING_KEY)).toMatch(/^t=\d{10}&s=[0-9a-f]{64}$/)
  expect(signatureOf({ a: 2, b: 1 }, SIGNING_KEY).split('&')[1]).toBe(
    signatureOf({ b: 1, a: 2 }, SIGNING_KEY).split('&')[1],
  )
})

describe('a run that waits', () => {
  /** A run that parks for an hour whenever it is advanced. */
  async function parked() {
    const advances: number[] = []
    const row = { until: null as Date | null }
    const app = await served({
      async advance() {
        advances.push(app.server.now().getTime())
        row.until = new Date(app.server.now().getTime() + HOUR_MS)
        return { kind: 'at', at: row.until }
      },
      look: () => {
        const waits = row.until !== null && row.until > app.server.now() ? row.until : null
        return Promise.resolve({ organizationId: 'acme', lane: 'interactive', waitsUntil: waits })
      },
    })
    await app.engine.wake('r')
    await app.server.settle()
    return { ...app, advances, row }
  }

  test('remembers its steps by the hash of their id and waits for a newer wake-up until its time', async () => {
    const { server, row } = await parked()
    const [run] = server.runsOf('bailiff-advance-run')
    expect([...(run?.steps.keys() ?? [])]).toEqual([stepHash('advance-1'), stepHash('look-1.1')])
    expect(server.waiting()).toEqual([{ runId: run?.id, until: row.until }])
  })

  test('goes on at its time', async () => {
    const { server, advances } = await parked()
    await server.pass(HOUR_MS - 1)
    expect(advances).toHaveLength(1)
    await server.pass(1)
    expect(advances).toHaveLength(2)
  })

  test('is waited for once, however often it is woken: a newer wake-up ends the older wait', async () => {
    const { server, engine, advances } = await parked()
    for (let wakes = 0; wakes < 5; wakes += 1) {
      await engine.wake('r')
      await server.settle()
    }
    expect(advances).toHaveLength(6)
    expect(server.waiting()).toHaveLength(1)
    await server.pass(HOUR_MS)
    expect(advances).toHaveLength(7)
  })

  test('does not mind the wake-up of another run, nor one for later', async () => {
    const { server, engine, row } = await parked()
    const [before] = server.waiting()
    await engine.wake('other', new Date(server.now().getTime() + 2 * HOUR_MS))
    await engine.wake('r', row.until ?? undefined)
    await server.settle()
    expect(server.waiting()).toEqual([before])
  })

  test('reads its row before it waits: a wake-up that was lost in between is seen', async () => {
    const { server, engine, advances, row } = await parked()
    const requests = new Map<string, number>()
    // The second request of a function run is the look: just before it, somebody moves the row and no event comes.
    server.mischief = ({ runId }) => {
      requests.set(runId, (requests.get(runId) ?? 0) + 1)
      if (requests.get(runId) === 2) row.until = null
      return null
    }
    await engine.wake('r')
    await server.settle()
    expect(advances).toHaveLength(3)
    expect(server.waiting()).toHaveLength(1)
  })

  test('reads its row again after the time: one that was parked for longer meanwhile is not advanced', async () => {
    const { server, advances, row } = await parked()
    const first = row.until
    row.until = new Date((first?.getTime() ?? 0) + HOUR_MS)
    await server.pass(HOUR_MS + 1)
    expect(advances).toHaveLength(1)
    expect(server.waiting().map(({ until }) => until)).toEqual([row.until])
    await server.pass(HOUR_MS)
    expect(advances).toHaveLength(2)
  })

  test('a row that says the same time after that time is over is read ever more seldom', async () => {
    const advances: string[] = []
    const { server, engine } = await served({
      async advance(runId) {
        advances.push(runId)
        return advances.length === 1 ? { kind: 'at', at: early } : idle
      },
      look: async () => ({ organizationId: 'acme', lane: 'batch', waitsUntil: server.now() < late ? early : null }),
    })
    const early = server.now()
    const late = new Date(early.getTime() + HOUR_MS)
    await engine.wake('r')
    await server.pass(HOUR_MS - 1)
    expect(advances).toHaveLength(1)
    // The wake-up, the segment, and two requests for each of the twelve doublings an hour has.
    expect(server.requests.filter(({ fnId }) => fnId === 'bailiff-advance-run').length).toBeLessThanOrEqual(30)
    await server.pass(2 * HOUR_MS)
    expect(advances).toHaveLength(2)
  })
})

describe('when a request goes wrong', () => {
  async function counted(outcomes: readonly AdvanceOutcome[] = [idle]) {
    const advances: string[] = []
    const app = await served({
      async advance(runId) {
        advances.push(runId)
        return outcomes[advances.length - 1] ?? idle
      },
    })
    return { ...app, advances }
  }

  test('an answer that is lost after the work: the step runs again, as attempt two', async () => {
    const { server, engine, advances } = await counted()
    server.mischief = ({ number }) => (number === 1 ? 'drop-the-answer' : null)
    await engine.wake('r')
    await server.pass(HOUR_MS / 60)
    expect(advances).toEqual(['r', 'r'])
    expect(server.requests.slice(0, 2).map(({ attempt }) => attempt)).toEqual([0, 1])
    expect(server.runsOf('bailiff-advance-run')[0]?.state).toBe('completed')
  })

  test('an answer that is lost after a later step: the steps before it are remembered', async () => {
    const { server, engine, advances } = await counted([{ kind: 'again' }, { kind: 'again' }])
    server.mischief = ({ number }) => (number === 3 ? 'drop-the-answer' : null)
    await engine.wake('r')
    await server.pass(HOUR_MS / 60)
    // Three segments, the third twice.
    expect(advances).toHaveLength(4)
  })

  test('a request that is delivered twice at once is done twice', async () => {
    const { server, engine, advances } = await counted()
    server.mischief = ({ number }) => (number === 1 ? 'deliver-twice' : null)
    await engine.wake('r')
    await server.settle()
    expect(advances).toEqual(['r', 'r'])
    expect(server.runsOf('bailiff-advance-run')[0]?.state).toBe('completed')
  })

  test('a delivery that comes after the function run has ended is done again and harms nobody', async () => {
    const { server, engine, advances } = await counted()
    await engine.wake('r')
    await server.settle()
    const [run] = server.runsOf('bailiff-advance-run')
    if (run === undefined) throw new Error('no run')
    expect((await server.deliverAgain(run)).status).toBe(206)
    expect(advances).toEqual(['r', 'r'])
    expect((await server.deliverAgain(run, run.steps)).status).toBe(200)
    expect(advances).toEqual(['r', 'r'])
  })

  test('tries that are spent are told once, and no text of a fault leaves', async () => {
    const told: [string, string][] = []
    const { server, engine } = await served({
      async advance() {
        throw new TypeError(SECRET)
      },
      async gaveUp(runId, fault) {
        told.push([runId, fault.message])
      },
    })
    await engine.wake('r')
    await server.pass(HOUR_MS)
    expect(told).toEqual([['r', 'TypeError; the log has the details']])
    const left = JSON.stringify([server.requests, server.events])
    expect(left).toContain('TypeError')
    expect(left).not.toContain('hunter2')
  })

  test('a server that never hears an answer gives up, and says so without a kind', async () => {
    const told: string[] = []
    const { server, engine } = await served({ gaveUp: async (_runId, fault) => void told.push(fault.message) })
    server.mischief = ({ fnId }) => (fnId === 'bailiff-advance-run' ? 'drop-the-answer' : null)
    await engine.wake('r')
    await server.pass(HOUR_MS)
    expect(told).toEqual(['Lost; the log has the details'])
  })

  test('a run that never comes to rest goes on in a function run of its own', async () => {
    let advances = 0
    const { server, engine } = await served({
      async advance() {
        advances += 1
        return advances < 150 ? { kind: 'again' } : idle
      },
    })
    await engine.wake('r')
    await server.settle()
    expect(advances).toBe(150)
    expect(server.runsOf('bailiff-advance-run')).toHaveLength(2)
  })

  test('events that cannot be sent are an error of the wake-up', async () => {
    const { server, engine } = await counted()
    server.refuseEvents = true
    await expect(engine.wake('r')).rejects.toThrow('500')
  })
})

describe('a provider’s job', () => {
  const data = { job_id: 'j1', provider: 'fullenrich', state: 'completed', terminal: true }

  test('completion is one event in its envelope, under the id of the delivery, and settles once', async () => {
    const settled: unknown[] = []
    const { server, engine } = await served({
      jobs: { 'provider_job.settle': { ...job((payload) => settled.push(payload)), event: PROVIDER_JOB_COMPLETED } },
    })
    const delivered = { id: 'event:delivery-7' }
    await engine.enqueue('provider_job.settle', data, delivered)
    await engine.enqueue('provider_job.settle', data, delivered)
    await server.settle()
    expect(server.events.filter(({ name }) => name === PROVIDER_JOB_COMPLETED)).toMatchObject([
      { id: 'event:delivery-7', name: 'platform/agentic.provider_job.completed.v1', data: { data } },
    ])
    expect(settled).toEqual([data])
  })

  test('three retries, then one report, after attempts that are counted', async () => {
    const tries: number[] = []
    const failures: [unknown, string][] = []
    const { server, engine } = await served({
      jobs: {
        'provider_job.settle': job(
          (_payload, attempt) => {
            tries.push(attempt)
            throw new RangeError(SECRET)
          },
          (payload, fault) => failures.push([payload, fault.message]),
        ),
      },
    })
    await engine.enqueue('provider_job.settle', data)
    await server.pass(HOUR_MS)
    expect(tries).toEqual([1, 2, 3, 4])
    expect(failures).toEqual([[data, 'RangeError; the log has the details']])
  })
})

test('segments of one run are asked for one after the other, and of one lane no more than its number at a time', async () => {
  let inside = 0
  let most = 0
  const server = executor()
  const engine = engineFor(server, { perLane: 2, concurrency: 50 })
  await engine.start({
    async advance() {
      inside += 1
      most = Math.max(most, inside)
      await new Promise((resolve) => setImmediate(resolve))
      inside -= 1
      return idle
    },
    sweep: async () => [],
    look: async (runId) => ({ organizationId: runId.slice(0, 1), lane: 'batch', waitsUntil: null }),
    gaveUp: async () => undefined,
    jobs: {},
    crons: [],
  })
  await server.sync(engine.handler)
  for (let index = 0; index < 6; index += 1) await engine.wake(`a-${index}`)
  await server.settle()
  expect(most).toBe(2)
  most = 0
  for (let index = 0; index < 6; index += 1) await engine.wake('b-1')
  await server.settle()
  expect(most).toBe(1)
})
