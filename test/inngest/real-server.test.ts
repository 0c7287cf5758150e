import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { inngestEngine, type InngestEngine } from '../../src/engines/inngest/index.ts'
import { SILENT } from './app.ts'

const given = process.env['INNGEST_DEV'] ?? ''
const baseUrl = URL.canParse(given) ? given : 'http://127.0.0.1:8288'
const isOn = given !== '' && given !== '0' && given !== 'false'

/*
 * What only a real server can show: that it understands what we register, and that its clock, its waits and its retries
 * are what the executor in this folder takes them for. Runs with INNGEST_DEV=1 or =http://host:port; see docs/inngest.md.
 */
describe.skipIf(!isOn)('a real development server', () => {
  const appId = `bailiff-test-${Date.now().toString(36)}`
  const advanced: { readonly runId: string; readonly at: number }[] = []
  const jobs: number[] = []
  const told: string[] = []
  const waits = new Map<string, Date>()
  let changed = Promise.withResolvers<void>()
  let engine: InngestEngine
  let network: ReturnType<typeof createServer>

  const change = (): void => {
    changed.resolve()
    changed = Promise.withResolvers()
  }
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await changed.promise
  }

  beforeAll(async () => {
    const listener = getRequestListener((request) => engine.handler(request))
    network = createServer((incoming, outgoing) => void listener(incoming, outgoing))
    await new Promise<void>((resolve) => void network.listen(0, '127.0.0.1', resolve))
    const address = network.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    engine = inngestEngine({
      appId,
      dev: true,
      baseUrl,
      serveUrl: `http://127.0.0.1:${port}/api/inngest`,
      logger: SILENT,
    })
    await engine.start({
      async advance(runId) {
        advanced.push({ runId, at: Date.now() })
        change()
        if (runId === 'broken') throw new TypeError('password=hunter2')
        const first = advanced.filter((one) => one.runId === runId).length === 1
        if (!runId.startsWith('waits') || !first) return { kind: 'idle' }
        const at = new Date(Date.now() + (runId === 'waits-long' ? 3_600_000 : 5_000))
        waits.set(runId, at)
        return { kind: 'at', at }
      },
      sweep: () => Promise.resolve([]),
      async look(runId) {
        const at = waits.get(runId)
        return { organizationId: 'acme', lane: 'batch', waitsUntil: at !== undefined && at > new Date() ? at : null }
      },
      gaveUp: async (runId) => {
        told.push(runId)
        change()
      },
      jobs: {
        flaky: {
          retries: 2,
          async run(_payload, attempt) {
            jobs.push(attempt)
            change()
            if (attempt < 2) throw new Error('again')
          },
          onFinalFailure: () => Promise.resolve(),
        },
      },
      crons: [],
    })
    const apps = async (): Promise<boolean> => (await (await fetch(`${baseUrl}/dev`)).text()).includes(appId)
    while (!(await apps())) await new Promise((resolve) => setTimeout(resolve, 500))
  }, 60_000)
  afterAll(async () => {
    await engine.stop(1_000)
    await new Promise((resolve) => void network.close(resolve))
  })

  test('a wake-up advances its run', async () => {
    await engine.wake('plain')
    await expect(until(() => advanced.some(({ runId }) => runId === 'plain'))).resolves.toBeUndefined()
  })

  test('a wait ends at its time, and at a wake-up', async () => {
    await engine.wake('waits-short')
    await engine.wake('waits-long')
    await until(() => advanced.filter(({ runId }) => runId === 'waits-short').length === 2)
    expect(advanced.findLast(({ runId }) => runId === 'waits-short')?.at).toBeGreaterThanOrEqual(
      waits.get('waits-short')?.getTime() ?? Infinity,
    )
    waits.delete('waits-long')
    await engine.wake('waits-long')
    await until(() => advanced.filter(({ runId }) => runId === 'waits-long').length === 2)
  }, 120_000)

  test('a job is tried again with a counted attempt, and one id is one job', async () => {
    for (const payload of [1, 2]) await engine.enqueue('flaky', payload, { id: `${appId}:flaky` })
    await until(() => jobs.includes(2))
    expect(jobs).toEqual([1, 2])
  }, 300_000)

  test('a run whose tries are spent is told', async () => {
    await engine.wake('broken')
    await expect(until(() => told.includes('broken'))).resolves.toBeUndefined()
  }, 900_000)
})
