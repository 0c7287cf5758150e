import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { vendorTool } from '../src/tools/declarations.ts'
import { RetryableUpstreamError, UpstreamUnavailableError } from '../src/tools/errors.ts'
import type { HandlerContext, ToolInvocation } from '../src/tools/invocation.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type World } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const PAID = { provider: 'exa', item: 'search', quantity: { searches: 1 }, costCents: 4 }

/** A paid read that behaves as told. */
function paid(behave: (context: HandlerContext) => Promise<void>, metered = true) {
  return vendorTool({
    name: 'research.search',
    description: 'A paid search.',
    input: z.object({ query: z.string() }),
    output: z.object({ hits: z.int() }),
    sideEffects: 'read',
    metered,
    handler: async (_invocation, _args, context) => {
      await behave(context)
      return ok({ hits: 1 }, { usageId: '00000000-0000-4000-8000-000000000000' })
    },
  })
}

async function open(behave: (context: HandlerContext) => Promise<void>, metered = true) {
  const w = await world({ database: db.database, extraTools: [paid(behave, metered)] })
  return { w, invocation: await w.invocation() }
}

const search = (w: World, invocation: ToolInvocation, query = 'jo') =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: 'research.search', args: { query } }, invocation))

async function rows() {
  const { rows: found } = await db.database.query({
    name: '',
    text: 'SELECT id, root_run_id, span_id, kind, provider, item, quantity, cost_cents FROM public.ai_usage_log',
  })
  return found
}

describe('a paid call', () => {
  test('T37 T40 R33 R34 writes one row for one answer: the answer and the span name it, and it counts for the run tree', async () => {
    const { w, invocation } = await open(async ({ meter }) => void (await meter.record(PAID)))
    const result = await search(w, invocation)
    const span = (await w.spans(invocation.runId)).find(({ name }) => name === 'research.search')
    const [row, ...others] = await rows()
    expect(others).toEqual([])
    expect(row).toMatchObject({
      kind: 'tool',
      provider: 'exa',
      item: 'search',
      quantity: { searches: 1 },
      cost_cents: 4,
    })
    expect(row).toMatchObject({ root_run_id: invocation.runId, span_id: (span as { id?: string } | undefined)?.id })
    expect(result.meta.usageId).toBe(row?.['id'])
    expect(span?.attributes['usageId']).toBe(row?.['id'])
    const capped = { ...invocation, ceilings: { ...invocation.ceilings, maxCostCents: 4 } }
    expect((await search(w, capped)).error?.code).toBe('budget_exhausted')
    expect(await rows()).toHaveLength(1)
  })

  test('T41 that fails upstream for now writes no row', async () => {
    const { w, invocation } = await open(() => Promise.reject(new RetryableUpstreamError('429')))
    expect((await search(w, invocation)).error?.code).toBe('retryable_upstream')
    expect(await rows()).toEqual([])
  })

  test('that the vendor refuses writes no row', async () => {
    const { w, invocation } = await open(() => Promise.reject(new UpstreamUnavailableError('no')))
    expect((await search(w, invocation)).error?.code).toBe('unavailable')
    expect(await rows()).toEqual([])
  })

  test('that answers without recording anything is a fault, and its data reaches nobody', async () => {
    const { w, invocation } = await open(async () => undefined)
    await expect(search(w, invocation)).rejects.toThrow('recorded no usage')
  })

  test('whose row cannot be written is a fault, and its data reaches nobody', async () => {
    const { w, invocation } = await open(
      async ({ meter }) => void (await meter.record({ ...PAID, costCents: Number.NaN })),
    )
    await expect(search(w, invocation)).rejects.toThrow('not a number')
    expect(await rows()).toEqual([])
  })

  test('charges once: a second row of one call is a fault', async () => {
    const { w, invocation } = await open(async ({ meter }) => {
      await meter.record(PAID)
      await meter.record(PAID)
    })
    await expect(search(w, invocation)).rejects.toThrow('twice')
    expect(await rows()).toHaveLength(1)
  })

  test('a tool that is not declared metered cannot charge: it passed no budget check', async () => {
    const { w, invocation } = await open(async ({ meter }) => void (await meter.record(PAID)), false)
    await expect(search(w, invocation)).rejects.toThrow('not declared metered')
    expect(await rows()).toEqual([])
  })
})

describe('a paid call that settles later', () => {
  function submitting(behave: (context: HandlerContext) => Promise<void>, settles?: 'later') {
    return vendorTool({
      name: 'research.submit',
      description: 'A paid submit.',
      input: z.object({}),
      output: z.object({ jobId: z.string() }),
      sideEffects: 'write',
      repeatable: false,
      metered: true,
      ...(settles === undefined ? {} : { settles }),
      handler: async (_invocation, _args, context) => {
        await behave(context)
        return ok({ jobId: 'x' })
      },
    })
  }
  const submit = async (tool: ReturnType<typeof submitting>, maxCostCents: number | null = null) => {
    const w = await world({ database: db.database, extraTools: [tool] })
    const invocation = await w.invocation()
    const capped = { ...invocation, ceilings: { ...invocation.ceilings, maxCostCents } }
    return inRun(w.core, capped, () => w.core.invoker.invoke({ toolName: 'research.submit', args: {} }, capped))
  }
  const nothing = async (): Promise<void> => undefined

  test('answers without a row, and a call that is not declared so does not', async () => {
    expect(await submit(submitting(nothing, 'later'))).toMatchObject({ ok: true, data: { jobId: 'x' } })
    await expect(submit(submitting(nothing))).rejects.toThrow('recorded no usage')
    expect(await rows()).toEqual([])
  })

  test('is checked against the budget of its run like any other', async () => {
    expect((await submit(submitting(nothing, 'later'), 0)).error?.code).toBe('budget_exhausted')
  })

  test('cannot record anything itself: it would be charged twice', async () => {
    const both = submitting(async ({ meter }) => void (await meter.record(PAID)), 'later')
    await expect(submit(both)).rejects.toThrow('settles later')
    expect(await rows()).toEqual([])
  })
})

describe('parallel paid calls', () => {
  test('overshoot the ceiling by no more than what was in flight when it was reached', async () => {
    const inFlight = 5
    let waiting = 0
    const { promise: all, resolve: together } = Promise.withResolvers<void>()
    const { w, invocation } = await open(async ({ meter }) => {
      waiting += 1
      if (waiting === inFlight) together()
      await all
      await meter.record(PAID)
    })
    const capped = { ...invocation, ceilings: { ...invocation.ceilings, maxCostCents: 1 } }
    const first = await Promise.all(Array.from({ length: inFlight }, (_, index) => search(w, capped, `q${index}`)))
    // Every one of them was admitted while nothing had been spent: the bound is their number times the price.
    expect(first.every(({ ok: answered }) => answered)).toBe(true)
    const later = await Promise.all(Array.from({ length: inFlight }, (_, index) => search(w, capped, `later${index}`)))
    expect(later.map(({ error }) => error?.code)).toEqual(Array.from({ length: inFlight }, () => 'budget_exhausted'))
    expect(await rows()).toHaveLength(inFlight)
  })
})
