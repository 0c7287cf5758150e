import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { startVendorServer, type VendorServer } from '../../simulators/vendor-server.ts'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import { world } from '../../test/setup/world.ts'
import { startTracing } from './tracing.ts'

let db: TestDatabase
let collector: VendorServer
beforeAll(async () => {
  collector = await startVendorServer({ behaviour: () => ({ status: 200, body: {} }) })
})
afterAll(() => collector.close())
beforeEach(async () => {
  db = await testDatabase()
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await db.close()
})

interface Exported {
  readonly resourceSpans: readonly {
    readonly resource: {
      readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue?: string } }[]
    }
    readonly scopeSpans: readonly { readonly spans: readonly { readonly name: string; readonly traceId: string }[] }[]
  }[]
}

test('spans arrive at the collector that the variables of OpenTelemetry name, at the latest when the server stops', async () => {
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', collector.url)
  vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'deployment.environment.name=test')
  vi.stubEnv('OTEL_SERVICE_NAME', 'outreach-server')
  const tracing = await startTracing()
  const w = await world({ database: db.database, observers: [tracing.observer] })
  const run = await w.start('canary-input')
  await w.engine.settle()
  await tracing.shutdown()

  expect(collector.requests.map(({ method, path }) => `${method} ${path}`)).toStrictEqual(['POST /v1/traces'])
  const { body, raw } = collector.requests[0] ?? { body: null, raw: '' }
  const { resourceSpans } = body as Exported
  const resource = new Map(resourceSpans[0]?.resource.attributes.map(({ key, value }) => [key, value.stringValue]))
  expect(resource.get('service.name')).toBe('outreach-server')
  expect(resource.get('deployment.environment.name')).toBe('test')
  const spans = resourceSpans[0]?.scopeSpans.flatMap((scope) => scope.spans) ?? []
  expect(spans.map((span) => span.name).toSorted()).toStrictEqual([
    'chat scripted/test',
    'invoke_agent outreach',
    'segment outreach',
  ])
  expect(new Set(spans.map((span) => span.traceId))).toStrictEqual(new Set([run.id.replaceAll('-', '')]))
  expect(raw.toString()).not.toContain('canary')
})
