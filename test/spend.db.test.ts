import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { aiSdkFramework } from '../src/frameworks/ai-sdk/index.ts'
import { createRuntime } from '../src/runtime.ts'
import { manualEngine } from '../src/testing/manual-engine.ts'
import type { Script, ScriptedCall } from '../src/testing/script.ts'
import { scriptedModel } from '../src/testing/scripted-model.ts'
import { internalTool, vendorTool } from '../src/tools/declarations.ts'
import type { HandlerContext, ToolInvocation } from '../src/tools/invocation.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

/** A paid read and a paid write, with the calls that reached their handlers. */
function paidTools(costCents: number) {
  const reached: string[] = []
  const work = async (what: string, { meter }: HandlerContext): Promise<void> => {
    reached.push(what)
    await meter.record({ provider: 'exa', item: 'search', quantity: { searches: 1 }, costCents })
  }
  const search = vendorTool({
    name: 'research.search',
    description: 'A paid search.',
    input: z.object({ query: z.string() }),
    output: z.object({ hits: z.int() }),
    sideEffects: 'read',
    metered: true,
    handler: async (_invocation, { query }, context) => {
      await work(query, context)
      return ok({ hits: 1 })
    },
  })
  const enrich = internalTool({
    name: 'crm.enrich',
    description: 'A paid write.',
    input: z.object({ id: z.string() }),
    output: z.object({}),
    sideEffects: 'write',
    repeatable: false,
    metered: true,
    handler: async (_invocation, { id }, context) => {
      await work(id, context)
      return ok({})
    },
  })
  return { tools: [search, enrich], reached }
}

async function open(options: Omit<WorldOptions, 'database' | 'extraTools'> & { readonly costCents?: number } = {}) {
  const { tools, reached } = paidTools(options.costCents ?? 0)
  const w = await world({ database: db.database, extraTools: tools, ...options })
  return { w, reached }
}

const search = (w: World, invocation: ToolInvocation, query = 'jo') =>
  inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: 'research.search', args: { query } }, invocation))

/** The invocation of a run that may spend `maxCostCents`. */
const withBudget = async (w: World, maxCostCents: number | null): Promise<ToolInvocation> => {
  const invocation = await w.invocation()
  return { ...invocation, ceilings: { ...invocation.ceilings, maxCostCents } }
}

/** What calls of one run tree have cost so far. */
async function spend(organizationId: string, rootRunId: string, cents: number): Promise<void> {
  await db.admin.query(
    {
      name: '',
      text: `INSERT INTO public.ai_usage_log (id, organization_id, root_run_id, run_id, kind, provider, item, quantity, cost_cents)
        VALUES ($1::uuid, $2::uuid, $3::uuid, $4::uuid, 'tool', 'exa', 'search', '{}', $5::numeric)`,
    },
    [randomUUID(), organizationId, rootRunId, randomUUID(), cents],
  )
}

async function usageRows(): Promise<number> {
  const { rows } = await db.database.query<{ n: number }>({
    name: '',
    text: 'SELECT count(*)::int AS n FROM public.ai_usage_log',
  })
  return rows[0]?.n ?? 0
}

describe('the cost ceiling of a run', () => {
  test('T38 R30 refuses a metered call before its handler once it is reached, and lets it run one cent earlier', async () => {
    const { w, reached } = await open()
    const invocation = await withBudget(w, 10)
    await spend(w.organizationId, invocation.runId, 9)
    expect((await search(w, invocation, 'first')).ok).toBe(true)
    await spend(w.organizationId, invocation.runId, 1)
    const refused = await search(w, invocation, 'second')
    expect(refused).toMatchObject({ ok: false, error: { code: 'budget_exhausted' }, stop: 'budget_exhausted' })
    expect(reached).toEqual(['first'])
  })

  test('R44 counts every run of the tree, and no run of another tree', async () => {
    const { w, reached } = await open()
    const invocation = await withBudget(w, 10)
    const root = randomUUID()
    const inTree = <T>(work: () => Promise<T>): Promise<T> => {
      const { organizationId, runId } = invocation
      return w.core.ambient.enter({ organizationId, runId, rootRunId: root, spanId: runId }, work)
    }
    const call = (query: string) =>
      inTree(() => w.core.invoker.invoke({ toolName: 'research.search', args: { query } }, invocation))
    await spend(w.organizationId, randomUUID(), 1000)
    await spend(randomUUID(), root, 1000)
    expect((await call('others spent')).ok).toBe(true)
    await spend(w.organizationId, root, 6)
    await spend(w.organizationId, root, 6)
    expect((await call('the tree spent')).error?.code).toBe('budget_exhausted')
    expect(reached).toEqual(['others spent'])
  })

  test('R52 is compared with the usage log alone: a row counts as soon as it is there', async () => {
    const { w } = await open()
    const invocation = await withBudget(w, 1)
    expect((await search(w, invocation)).ok).toBe(true)
    await spend(w.organizationId, invocation.runId, 1)
    expect((await search(w, invocation)).error?.code).toBe('budget_exhausted')
    await db.database.execute('DELETE FROM public.ai_usage_log')
    expect((await search(w, invocation)).ok).toBe(true)
  })

  test('a tool that costs nothing does not ask what was spent', async () => {
    const { w } = await open()
    const invocation = await withBudget(w, 1)
    await spend(w.organizationId, invocation.runId, 100)
    const free = { toolName: 'crm.search', args: { query: 'jo' } }
    expect((await inRun(w.core, invocation, () => w.core.invoker.invoke(free, invocation))).ok).toBe(true)
  })
})

describe('a metered call that cannot be counted', () => {
  const outside = (w: World, invocation: ToolInvocation, query: string) =>
    w.core.invoker.invoke({ toolName: 'research.search', args: { query } }, invocation)

  test('T39 outside of a run tree it is a fault, reaches no handler and writes no usage row', async () => {
    const { w, reached } = await open()
    const invocation = await withBudget(w, 10)
    const refused = await outside(w, invocation, 'jo')
    expect(refused).toMatchObject({ ok: false, error: { code: 'internal_error' }, stop: 'fault' })
    expect(reached).toEqual([])
    expect(await usageRows()).toBe(0)
  })

  test('T49 R51 met by many calls it is one report to the operator and one log line a call', async () => {
    const reports: unknown[] = []
    const lines: string[] = []
    const quiet = (): void => undefined
    const { w } = await open({
      reporter: { report: (error) => reports.push(error) },
      logger: { info: quiet, warn: quiet, error: (message) => lines.push(message) },
    })
    const invocation = await withBudget(w, 10)
    await Promise.all(Array.from({ length: 20 }, (_, index) => outside(w, invocation, `q${index}`)))
    expect(reports).toHaveLength(1)
    expect(lines).toHaveLength(20)
  })
})

describe('a run', () => {
  const turn =
    (...calls: readonly ScriptedCall[]): Script =>
    ({ turns }) =>
      turns.length === 0 ? { calls } : { text: 'never said' }

  /** Reads one after the other, so that the second finds what the first has cost. */
  async function play(w: World, script: Script) {
    const model = scriptedModel({ name: 'scripted/test', next: script })
    const engine = manualEngine()
    const framework = aiSdkFramework({ resolveModel: () => model, maxRetries: 0, readConcurrency: 1 })
    const runtime = createRuntime(w.core, { frameworks: [framework], engine, defaultModel: 'scripted/test' })
    await runtime.start()
    const { organizationId } = w
    const run = await runtime.runs.start({
      organizationId,
      definition: 'outreach',
      input: 'go',
      startedBy: STARTER,
      source: 'api',
    })
    await engine.settle()
    return w.run(run.id)
  }

  test.each([
    ['a read inside the framework', 'research.search', 'query'],
    ['a write at a pause', 'crm.enrich', 'id'],
  ])('R13 whose budget runs out at %s ends partial, and the model speaks no more', async (_what, tool, key) => {
    const { w, reached } = await open({ costCents: 5, ceilings: { maxCostCents: 5 } })
    const calls = ['first', 'second', 'third'].map((value) => ({ tool, args: { [key]: value } }))
    expect(await play(w, turn(...calls))).toMatchObject({ status: 'partial', reason: 'budget_exhausted', output: null })
    expect(reached).toEqual(['first'])
  })

  test.each([
    ['a read inside the framework', { tool: 'crm.search', args: { query: 'jo' } }],
    ['a write at a pause', { tool: 'crm.note', args: { text: 'a' } }],
  ])('R13 that a fault of policy meets at %s fails under the code of the refusal', async (_what, call) => {
    const rules = [{ name: 'by age', tools: ['crm.*'], when: 'arguments.age > 3', effect: 'deny' }] as const
    const { w } = await open({ rules })
    expect(await play(w, turn(call))).toMatchObject({ status: 'failed', reason: 'internal_error', output: null })
    expect(w.effects).toEqual({ sent: [], notes: [], searches: [] })
  })
})
