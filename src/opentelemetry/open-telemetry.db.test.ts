import { context, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider, type ReadableSpan } from '@opentelemetry/sdk-trace'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import { world, type World, type WorldOptions } from '../../test/setup/world.ts'
import { openTelemetry, spanIds } from './index.ts'

let db: TestDatabase
let exporter: InMemorySpanExporter
beforeAll(() => context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
afterAll(() => context.disable())
beforeEach(async () => {
  db = await testDatabase()
  exporter = new InMemorySpanExporter()
})
afterEach(() => db.close())

function provider(idGenerator?: ReturnType<typeof spanIds>): TracerProvider {
  return new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter })],
    ...(idGenerator === undefined ? {} : { idGenerator }),
  })
}

/** One process of a deployment, with an SDK of its own. */
function traced(options: Partial<WorldOptions> = {}, idGenerator = spanIds()): Promise<World> {
  return world({
    database: db.database,
    observers: [openTelemetry({ tracer: provider(idGenerator).getTracer('test') })],
    script: ({ turns }) =>
      turns.length === 0
        ? {
            calls: [
              { tool: 'crm.search', args: { query: 'canary-argument' } },
              { tool: 'email.send', args: { to: 'jo@acme.test' } },
            ],
          }
        : { text: 'canary-text' },
    ...options,
  })
}

const named = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name)

function only(name: string): ReadableSpan {
  const found = named(name)
  expect(found.map((span) => span.name)).toStrictEqual([name])
  return found[0] as ReadableSpan
}

test('a run is a trace of its own id: run, segments, turns and calls, each under the one that asked for it', async () => {
  const first = await traced()
  const run = await first.start('canary-input')
  await first.engine.settle()
  // Another process goes on: what it exports stands in the same tree.
  const second = await traced()
  await second.approve(run.id)
  await second.engine.settle()
  expect((await second.run(run.id)).status).toBe('completed')

  const spans = exporter.getFinishedSpans()
  const root = only('invoke_agent outreach')
  expect(root.parentSpanContext).toBeUndefined()
  expect(new Set(spans.map((span) => span.spanContext().traceId))).toStrictEqual(new Set([run.id.replaceAll('-', '')]))
  const ids = new Set(spans.map((span) => span.spanContext().spanId))
  expect(ids.size).toBe(spans.length)
  const orphans = spans.filter((span) => span !== root && !ids.has(span.parentSpanContext?.spanId ?? ''))
  expect(orphans.map((span) => span.name)).toStrictEqual([])

  const [segment, resumed] = named('segment outreach')
  expect(segment?.attributes).toMatchObject({ 'bailiff.segment.ending': 'parked' })
  expect(resumed?.attributes).toMatchObject({ 'bailiff.segment.ending': 'ended' })
  const [turn] = named('chat scripted/test')
  expect(turn?.parentSpanContext?.spanId).toBe(segment?.spanContext().spanId)
  for (const call of [...named('execute_tool crm.search'), ...named('execute_tool email.send')])
    expect(call.parentSpanContext?.spanId).toBe(turn?.spanContext().spanId)
})

test('spans speak the conventions for generative AI, and bailiff.* where these have no word', async () => {
  const w = await traced()
  const run = await w.start()
  await w.engine.settle()
  await w.approve(run.id)
  await w.engine.settle()
  const place = {
    'gen_ai.agent.name': 'outreach',
    'bailiff.organization.id': w.organizationId,
    'bailiff.run.id': run.id,
    'bailiff.run.root_id': run.id,
  }
  expect(only('invoke_agent outreach').attributes).toStrictEqual({
    ...place,
    'gen_ai.operation.name': 'invoke_agent',
    'bailiff.run.status': 'completed',
    'bailiff.run.lane': 'interactive',
    'bailiff.run.turns': expect.any(Number),
    'bailiff.run.tool_calls': expect.any(Number),
  })
  expect(named('chat scripted/test')[0]?.attributes).toStrictEqual({
    ...place,
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'scripted',
    'gen_ai.request.model': 'test',
    'gen_ai.response.model': 'test',
    'gen_ai.usage.input_tokens': expect.any(Number),
    'gen_ai.usage.output_tokens': expect.any(Number),
    'bailiff.cost_cents': 0,
  })
  const [held, sent] = named('execute_tool email.send')
  expect(held?.attributes).toMatchObject({ 'bailiff.outcome': 'held', 'bailiff.decision': 'require_approval' })
  expect(sent?.attributes).toStrictEqual({
    ...place,
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'email.send',
    'gen_ai.tool.type': 'function',
    'bailiff.outcome': 'ok',
    'bailiff.replayed': false,
    'bailiff.untrusted': true,
    'bailiff.attempt': 1,
    'bailiff.claim': 'complete',
    'bailiff.decision': 'allow',
    'bailiff.decision.stage': 2,
  })
})

test('what a handler does stands under the span of its call', async () => {
  const tracer = provider().getTracer('vendor')
  const w = await traced({
    rules: [{ name: 'go', tools: ['email.send'], effect: 'allow' }],
    onSend: async () => tracer.startSpan('POST /messages').end(),
  })
  await w.start()
  await w.engine.settle()
  const call = only('execute_tool email.send').spanContext()
  expect(only('POST /messages').parentSpanContext).toMatchObject({ traceId: call.traceId, spanId: call.spanId })
})

test('a refused call is an error with its code and its rule; a made-up name is not repeated', async () => {
  const w = await traced({
    rules: [{ name: 'no mail', tools: ['email.send'], effect: 'deny' }],
    script: ({ turns }) =>
      turns.length === 0
        ? {
            calls: [
              { tool: 'email.send', args: { to: 'jo@acme.test' } },
              { tool: 'canary.tool', args: {} },
            ],
          }
        : { text: 'no' },
  })
  await w.start()
  await w.engine.settle()
  const refused = only('execute_tool email.send')
  expect(refused.status).toStrictEqual({ code: SpanStatusCode.ERROR, message: 'denied' })
  expect(refused.attributes).toMatchObject({
    'error.type': 'denied',
    'bailiff.code': 'denied',
    'bailiff.decision': 'deny',
    'bailiff.rule': 'no mail',
  })
  expect(only('execute_tool unknown').attributes).toMatchObject({ 'bailiff.code': 'tool_unavailable' })
})

test('no span holds an argument, an answer or a text', async () => {
  const w = await traced()
  const run = await w.start('canary-input')
  await w.engine.settle()
  await w.reject(run.id, 'canary-note')
  await w.engine.settle()
  const text = JSON.stringify(
    exporter.getFinishedSpans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status })),
  )
  expect(exporter.getFinishedSpans().length).toBeGreaterThan(4)
  for (const payload of ['canary', 'jo@acme.test']) expect(text).not.toContain(payload)
})

test('with an SDK that makes its own ids, a run is still one trace, with calls under their turn', async () => {
  const own = {
    generateTraceId: () => 'ab'.repeat(16),
    generateSpanId: () => crypto.randomUUID().replaceAll('-', '').slice(16),
  }
  const w = await traced({}, own)
  const run = await w.start()
  await w.engine.settle()
  await w.approve(run.id)
  await w.engine.settle()
  const spans = exporter.getFinishedSpans()
  expect(new Set(spans.map((span) => span.spanContext().traceId))).toStrictEqual(new Set([run.id.replaceAll('-', '')]))
  const [turn] = named('chat scripted/test')
  expect(named('execute_tool crm.search')[0]?.parentSpanContext?.spanId).toBe(turn?.spanContext().spanId)
})

test('without an SDK nothing happens, and an observer that raises changes nothing', async () => {
  trace.disable()
  const broken = {
    observe: () => {
      throw new Error('the observer is broken')
    },
  }
  const w = await world({ database: db.database, observers: [openTelemetry(), broken] })
  const run = await w.start()
  await w.engine.settle()
  expect((await w.run(run.id)).status).toBe('completed')
})
