import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, expect, inject, test } from 'vitest'
import { z } from 'zod'
import type { Rule } from '../src/bailiff.ts'
import type { LimitPeriod } from '../src/decision/limits.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { RetryableUpstreamError } from '../src/tools/errors.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired, ReadHeld } from '../src/tools/invoker.ts'
import { ok } from '../src/tools/models.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type World } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const TOOLS = ['lab.mix', 'lab.pour', 'lab.look'] as const
type Tool = (typeof TOOLS)[number]

/** What the vendor of the lab does with the next call. */
const vendor = { busy: false }

const labTool = (name: Tool) => {
  const input = z.object({ what: z.string() })
  const common = { name, description: 'Work.', input, output: z.object({}) }
  const handler = async () => {
    if (vendor.busy) throw new RetryableUpstreamError('429')
    return ok({})
  }
  return name === 'lab.look'
    ? internalTool({ ...common, sideEffects: 'read', handler })
    : internalTool({ ...common, sideEffects: 'write', repeatable: false, handler })
}

interface ModelRule {
  readonly tools: readonly Tool[]
  /** Holds for arguments that start with a vowel. */
  readonly vowels: boolean
  readonly effect: 'deny' | 'require_approval'
  readonly mode: 'enforce' | 'shadow'
  readonly count: number
  readonly per: LimitPeriod
}

type Step =
  | { readonly do: 'call'; readonly run: number; readonly tool: Tool; readonly what: string; readonly busy: boolean }
  | { readonly do: 'end of'; readonly per: 'hour' | 'day' }

const modelRule: fc.Arbitrary<ModelRule> = fc.record({
  tools: fc.uniqueArray(fc.constantFrom(...TOOLS), { minLength: 1 }),
  vowels: fc.boolean(),
  effect: fc.constantFrom('deny', 'require_approval'),
  mode: fc.constantFrom('enforce', 'enforce', 'shadow'),
  count: fc.integer({ min: 1, max: 3 }),
  per: fc.constantFrom('run', 'hour', 'day'),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.record({
      do: fc.constant('call' as const),
      run: fc.nat({ max: 1 }),
      tool: fc.constantFrom(...TOOLS),
      what: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      busy: fc.nat({ max: 4 }).map((chance) => chance === 0),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('end of' as const), per: fc.constantFrom('hour', 'day') }) },
)

/** Limits written down as plainly as possible: a list of what was let through, and nothing like a counter. */
class Model {
  readonly #rules: readonly ModelRule[]
  readonly #passed: { rule: number; run: number; hour: number; day: number }[] = []
  readonly #done = new Set<string>()
  #hour = 0
  #day = 0

  constructor(rules: readonly ModelRule[]) {
    this.#rules = rules
  }

  end(per: 'hour' | 'day'): void {
    if (per === 'hour') this.#hour += 1
    else this.#day += 1
  }

  /** What the model of an agent reads, when a person approves whatever is asked. */
  call(call: Step & { readonly do: 'call' }): string {
    const name = `${call.run} ${call.tool} ${call.what}`
    if (this.#done.has(name)) return 'ok'
    const about = [...this.#rules.entries()].filter(
      ([, rule]) => rule.tools.includes(call.tool) && (!rule.vowels || 'ae'.includes(call.what)),
    )
    const full = about.filter(([index, rule]) => rule.mode === 'enforce' && this.used(index, call.run) >= rule.count)
    if (full.some(([, rule]) => rule.effect === 'deny')) return 'denied'
    if (full.length > 0 && call.tool === 'lab.look') return 'held read'
    const read = call.tool === 'lab.look'
    if (!call.busy || read) {
      for (const [rule] of about) this.#passed.push({ rule, run: call.run, hour: this.#hour, day: this.#day })
    }
    if (call.busy) return 'retryable_upstream'
    if (!read) this.#done.add(name)
    return 'ok'
  }

  used(rule: number, run: number): number {
    const per = this.#rules[rule]?.per
    return this.#passed.filter(
      (one) =>
        one.rule === rule &&
        (per === 'run' ? one.run === run : per === 'hour' ? one.hour === this.#hour : one.day === this.#day),
    ).length
  }
}

async function play(w: World, invocation: ToolInvocation, call: Step & { readonly do: 'call' }): Promise<string> {
  vendor.busy = call.busy
  const invoke = (authorizedBy: readonly string[]) =>
    inRun(w.core, invocation, () =>
      w.core.invoker.invoke({ toolName: call.tool, args: { what: call.what } }, invocation, { authorizedBy }),
    )
  try {
    return said(await invoke([]))
  } catch (error) {
    if (error instanceof ReadHeld) return 'held read'
    if (!(error instanceof ApprovalRequired)) throw error
    await w.approve(invocation.runId)
    return said(await invoke([error.approvalId]))
  }
}

const said = (result: { ok: boolean; error: { code: string } | null }): string => result.error?.code ?? 'ok'

async function usedNow(w: World, per: LimitPeriod, { runId }: ToolInvocation): Promise<Record<string, number>> {
  const { rows } = await db.database.query<{ rule: string; used: number }>(
    {
      name: '',
      text: 'SELECT rule, used FROM agent.rule_counters WHERE organization_id = $1::uuid AND period = agent.limit_period($2, $3::uuid)',
    },
    [w.organizationId, per, runId],
  )
  return Object.fromEntries(rows.map((row) => [row.rule, row.used]))
}

test('limits let through what a list of past calls would: any rules, any order, failures, replays, approvals, periods that end', async () => {
  const property = fc.asyncProperty(
    fc.array(modelRule, { minLength: 1, maxLength: 3 }),
    fc.array(step, { minLength: 5, maxLength: 30 }),
    async (modelRules, steps) => {
      await empty(db.database)
      const w = await world({
        database: db.database,
        settings: { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } },
        extraTools: TOOLS.map(labTool),
        agentTools: TOOLS,
        rules: modelRules.map(ruleOf),
      })
      const began = await hour()
      try {
        await compare(w, modelRules, steps)
      } catch (error) {
        // An hour that really ended in the middle is none of the model's.
        if ((await hour()) === began) throw error
      }
    },
  )
  await expect(fc.assert(property, { numRuns: inject('role') === 'member' ? 10 : 40 })).resolves.toBeUndefined()
}, 60_000)

async function compare(w: World, modelRules: readonly ModelRule[], steps: readonly Step[]): Promise<void> {
  const model = new Model(modelRules)
  const runs = [await w.invocation(), await w.invocation()]
  for (const one of steps) {
    if (one.do === 'end of') {
      model.end(one.per)
      await endOf(w, one.per)
    } else expect([one, await play(w, runs[one.run]!, one)]).toEqual([one, model.call(one)])
  }
  for (const [index, { per }] of modelRules.entries()) {
    for (const [run, invocation] of runs.entries()) {
      expect((await usedNow(w, per, invocation))[`rule ${index}`] ?? 0).toBe(model.used(index, run))
    }
  }
}

async function hour(): Promise<string> {
  const { rows } = await db.database.query<{ hour: string }>({
    name: '',
    text: "SELECT agent.limit_period('hour', NULL) AS hour",
  })
  return rows[0]?.hour ?? ''
}

function ruleOf(rule: ModelRule, index: number): Rule<string> {
  return {
    name: `rule ${index}`,
    tools: rule.tools,
    ...(rule.vowels ? { when: 'arguments.what in ["a", "e"]' } : {}),
    effect: rule.effect,
    mode: rule.mode,
    limit: { count: rule.count, per: rule.per },
  }
}

let ended = 0

/** Makes what was counted in the current period something of the past. */
async function endOf(w: World, per: 'hour' | 'day'): Promise<void> {
  ended += 1
  await db.database.query(
    {
      name: '',
      text: "UPDATE agent.rule_counters SET period = $3 WHERE organization_id = $1::uuid AND period LIKE $2 || ':2%'",
    },
    [w.organizationId, per, `${per}:past ${ended}`],
  )
}
