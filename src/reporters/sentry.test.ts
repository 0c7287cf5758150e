import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startVendorServer, type VendorServer } from '../../simulators/vendor-server.ts'
import { VendorError } from '../handlers/vendor/vendor-error.ts'
import { sentryReporter, type SentryReporter } from './sentry.ts'

let sentry: VendorServer
let reporter: SentryReporter
beforeAll(async () => {
  sentry = await startVendorServer({ behaviour: () => ({ status: 200, body: { id: 'e1' } }) })
  const dsn = `http://public@${new URL(sentry.url).host}/42`
  reporter = await sentryReporter({ dsn, environment: 'test', release: '1.2.3' })
})
beforeEach(() => sentry.reset())
afterAll(() => sentry.close())

interface SentryEvent {
  readonly exception: { readonly values: readonly { readonly type: string; readonly value: string }[] }
  readonly fingerprint: readonly string[]
  readonly tags: Readonly<Record<string, string>>
  readonly level: string
  readonly environment: string
  readonly release: string
}

/** The events that arrived, and everything that was sent. */
async function arrived(): Promise<{ readonly events: SentryEvent[]; readonly text: string }> {
  expect(await reporter.flush(5_000)).toBe(true)
  const bodies = sentry.requests.map(({ raw, headers }) =>
    (headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw).toString(),
  )
  return { events: bodies.map((body) => JSON.parse(body.split('\n')[2] ?? '') as SentryEvent), text: bodies.join('') }
}

test('a fault arrives with its kind, where it was met, and a fingerprint without ids', async () => {
  const error = new VendorError({ vendor: 'hunter', trouble: 'payment', status: 402, requestId: 'r-17' })
  reporter.report(error, { tool: 'research.find_contact', runId: 'run-1' })
  const { events } = await arrived()
  expect(events).toHaveLength(1)
  expect(events[0]).toMatchObject({
    exception: { values: [{ type: 'VendorError', value: expect.stringContaining('no credit left') }] },
    fingerprint: ['VendorError', 'research.find_contact', 'hunter', 'payment'],
    tags: { tool: 'research.find_contact', runId: 'run-1' },
    level: 'error',
    environment: 'test',
    release: '1.2.3',
  })
  expect(sentry.requests[0]?.path).toBe('/api/42/envelope/')
})

test('one error reported at two places is two reports', async () => {
  const error = new Error('down')
  reporter.report(error, { tool: 'a' })
  reporter.report(error, { tool: 'b' })
  expect((await arrived()).events.map(({ tags }) => tags['tool'])).toEqual(['a', 'b'])
})

test('nothing that an error carries besides name, message and stack is sent', async () => {
  const raised = Object.assign(new Error('failed', { cause: new Error('canary-cause') }), {
    config: { headers: { authorization: 'canary-header' } },
  })
  reporter.report(raised, { tool: 'a' })
  reporter.report({ secret: 'canary-object' }, { tool: 'a' })
  reporter.report(new Error('x'.repeat(10_000)), { tool: 'a' })
  const { events, text } = await arrived()
  expect(events).toHaveLength(3)
  expect(text).not.toContain('canary')
  expect(text).not.toContain('x'.repeat(501))
})
