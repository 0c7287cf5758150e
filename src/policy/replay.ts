import type { Effect } from '../decision/stage-two.ts'
import { argumentsHash } from '../tools/canonical.ts'
import { parseArguments, type ToolDeclaration } from '../tools/declarations.ts'
import type { JsonObject, JsonValue } from '../tools/json.ts'
import { isJsonObject } from '../tools/json.ts'
import type { ToolRegistry } from '../tools/registry.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import type { PastCall, PastCalls } from './past-call.ts'
import { defaultsOf, type PolicySource } from './policy.ts'
import { replayCalls, type ReplayedOutcome } from './replay-outcome.ts'
import { validateRule, type RuleDraft, type RuleProblem, type StoredRule } from './rule.ts'
import { compileRules } from './rule-set.ts'
import { matchesTool } from './tool-pattern.ts'

export interface ReplayParts {
  readonly past: PastCalls
  readonly source: PolicySource
  readonly registry: Pick<ToolRegistry, 'get' | 'declaration'>
  readonly catalogue: PolicyCatalogue
}

export interface ReplayRequest {
  readonly organizationId: string
  /** Added to the rules of today, or put in the place of the one of its name. Replayed as if enforced, whatever its mode. */
  readonly draft: RuleDraft
  /** Calls that were decided since then; all that are kept unless given. */
  readonly since?: Date
  /** The newest so many; 500 unless given, 5000 at most. */
  readonly limit?: number
}

export type RuleReplay =
  | { readonly kind: 'invalid'; readonly problems: readonly RuleProblem[] }
  | { readonly kind: 'replayed'; readonly calls: readonly ReplayedCall[]; readonly summary: ReplaySummary }

/** One past call of a tool the draft, or the rule it replaces, is about. */
export interface ReplayedCall {
  readonly spanId: string
  readonly runId: string
  readonly tool: string
  readonly decidedAt: Date
  readonly decided: { readonly outcome: Effect | 'fault'; readonly rule: string | null }
  readonly now: ReplayedOutcome
}

export interface ReplaySummary {
  readonly calls: number
  readonly unchanged: number
  /** Calls whose outcome cannot be told from what was recorded. */
  readonly unknown: number
  /** Calls that would be decided otherwise, by what was decided and what would be now. */
  readonly changed: readonly {
    readonly from: Effect | 'fault'
    readonly to: Effect | 'fault'
    readonly calls: number
  }[]
}

const USUAL_CALLS = 500
const MOST_CALLS = 5000

/**
 * What a draft would have decided about past calls, before it is saved. Nothing is resolved again: facts are those that
 * were recorded, so a call whose outcome depends on one that was not is unknown. Grants and budgets are left out.
 */
export async function replayRule(parts: ReplayParts, request: ReplayRequest): Promise<RuleReplay> {
  const { organizationId, draft } = request
  const validation = validateRule(draft, parts.catalogue)
  if (validation.kind === 'invalid') return validation
  const { rules: stored, settings } = await parts.source.read(organizationId)
  const drafted: StoredRule = { ...validation.rule, mode: 'enforce', id: DRAFT_ID }
  const replaced = stored.find((rule) => rule.name === drafted.name)
  const rules = replaced === undefined ? [...stored, drafted] : stored.with(stored.indexOf(replaced), drafted)
  const about = toolsOf([drafted, ...(replaced === undefined ? [] : [replaced])], parts.catalogue)
  const limit = Math.min(Math.max(1, request.limit ?? USUAL_CALLS), MOST_CALLS)
  const since = request.since ?? null
  const tools = countedWith(about, rules, parts.catalogue)
  const { calls, complete } = await parts.past.list({ organizationId, tools, since, limit })
  const outcomes = replayCalls(
    calls.flatMap((call) => {
      const spec = parts.registry.get(call.tool)
      const args = argumentsOf(call, parts.registry.declaration(call.tool))
      return spec === undefined ? [] : [{ call, args, sideEffects: spec.sideEffects }]
    }),
    {
      rules: compileRules(rules, parts.catalogue),
      defaults: defaultsOf(settings),
      start: complete ? since : (calls[0]?.decidedAt ?? since),
    },
  )
  const replayed = outcomes.filter(({ call }) => about.includes(call.tool)).map(replayedCall)
  return { kind: 'replayed', calls: replayed.toReversed(), summary: summaryOf(replayed) }
}

/** Stands for a rule that has no row. */
const DRAFT_ID = '00000000-0000-0000-0000-000000000000'

function toolsOf(rules: readonly StoredRule[], catalogue: PolicyCatalogue): readonly string[] {
  const patterns = rules.flatMap((rule) => (Array.isArray(rule.tools) ? rule.tools.filter(isText) : []))
  return [...catalogue.tools.keys()].filter((tool) => patterns.some((pattern) => matchesTool(pattern, tool)))
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

/** Tools whose calls a limit counts together with these, and with those in turn: without them its counts would be too low. */
function countedWith(
  tools: readonly string[],
  rules: readonly StoredRule[],
  catalogue: PolicyCatalogue,
): readonly string[] {
  const limited = rules.filter((rule) => rule.limit !== null)
  const groups = limited.map((rule) => toolsOf([rule], catalogue))
  const joined = groups.filter((group) => group.some((tool) => tools.includes(tool)))
  const all = [...new Set([...tools, ...joined.flat()])]
  return all.length === tools.length ? tools : countedWith(all, limited, catalogue)
}

/**
 * The arguments that were decided on, or null when they were not stored whole: the hash tells, whatever redaction,
 * bounds, new defaults or a new contract have made of them.
 */
function argumentsOf(call: PastCall, declaration: ToolDeclaration | undefined): JsonObject | null {
  const candidates = [call.filedArguments, declaration === undefined ? null : parsed(declaration, call.input)]
  return candidates.find((args) => args !== null && argumentsHash(args) === call.argumentsHash) ?? null
}

function parsed(declaration: ToolDeclaration, input: JsonValue): JsonObject | null {
  if (!isJsonObject(input)) return null
  try {
    const result = parseArguments(declaration, input)
    return result.kind === 'parsed' ? result.args : null
  } catch {
    // A parser that cannot take what was stored says nothing about the call.
    return null
  }
}

function replayedCall({ call, now }: { readonly call: PastCall; readonly now: ReplayedOutcome }): ReplayedCall {
  const { spanId, tool, decidedAt, outcome, rule, origin } = call
  return { spanId, runId: origin.runId, tool, decidedAt, decided: { outcome, rule }, now }
}

function summaryOf(calls: readonly ReplayedCall[]): ReplaySummary {
  const changed = new Map<string, ReplaySummary['changed'][number]>()
  let unknown = 0
  let unchanged = 0
  for (const { decided, now } of calls) {
    if (now.outcome === 'unknown') unknown += 1
    else if (now.outcome === decided.outcome) unchanged += 1
    else {
      const key = `${decided.outcome} ${now.outcome}`
      const count = (changed.get(key)?.calls ?? 0) + 1
      changed.set(key, { from: decided.outcome, to: now.outcome, calls: count })
    }
  }
  return { calls: calls.length, unchanged, unknown, changed: [...changed.values()] }
}
