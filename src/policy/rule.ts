import type { LimitPeriod, RuleLimit } from '../decision/limits.ts'
import type { Effect } from '../decision/stage-two.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import { isJsonObject } from '../tools/json.ts'
import type { Position } from './condition.ts'
import { compileExpression } from './expression.ts'
import { isToolPattern, isWildcard, matchesTool } from './tool-pattern.ts'
import { listed, notFound, shown } from './wording.ts'

/** A rule as a person wrote it. Nothing about it is trusted: it may come out of a request body or a stored row. */
export interface RuleDraft {
  readonly name: string
  /** Platform names, or wildcards such as `email.*` and `*`. */
  readonly tools: readonly string[]
  /** CEL; null matches every call of the tools. */
  readonly when: string | null
  readonly effect: Effect
  readonly mode: RuleMode
  /** User ids or role names; empty or absent lets everyone decide who may decide at all. */
  readonly approvers?: readonly string[]
  /** Seconds a person has to answer; absent or null takes the organization's default. */
  readonly ttlS?: number | null
  /** Lets so many calls pass before the effect applies; absent or null applies it to every call. */
  readonly limit?: RuleLimit | null
}

/** `shadow` is evaluated and recorded, and changes nothing. */
export type RuleMode = 'enforce' | 'shadow'

/** A rule that was checked against the catalogue when it was saved. */
export interface ValidRule {
  readonly name: string
  readonly tools: readonly string[]
  readonly when: string | null
  readonly effect: Effect
  readonly mode: RuleMode
  readonly approvers: readonly string[]
  readonly ttlS: number | null
  readonly limit: RuleLimit | null
}

export interface StoredRule extends ValidRule {
  readonly id: string
}

type RuleField = keyof ValidRule

export interface RuleProblem {
  readonly field: RuleField
  /** What is wrong and what to write instead. */
  readonly message: string
  /** Where in `when`; offsets in UTF-16 code units. */
  readonly position?: Position
}

export type RuleValidation =
  | { readonly kind: 'valid'; readonly rule: ValidRule }
  | { readonly kind: 'invalid'; readonly problems: readonly RuleProblem[] }

export const MAX_TTL_S = 30 * 24 * 3600

/** Calls a limit lets pass. Zero would be a rule without a limit. */
const MAX_LIMIT = 1_000_000

const MAX_TOOLS = 100
const MAX_APPROVERS = 50

/** Letters of any script, so that a team can write its own language; no control or direction characters. */
const RULE_NAME = /^[\p{L}\p{N}](?:[\p{L}\p{M}\p{N} ._:()'/&+-]{0,78}[\p{L}\p{M}\p{N})])?$/u
const APPROVER = /^[A-Za-z0-9][A-Za-z0-9_.@:-]{0,127}$/

const EFFECTS: readonly unknown[] = ['allow', 'deny', 'require_approval'] satisfies Effect[]
const MODES: readonly unknown[] = ['enforce', 'shadow'] satisfies RuleMode[]
const PERIODS: readonly unknown[] = ['run', 'hour', 'day'] satisfies LimitPeriod[]

/** Finds every fault at once, so that a person corrects a rule in one go. */
export function validateRule(draft: RuleDraft, catalogue: PolicyCatalogue): RuleValidation {
  const problems = [...nameProblems(draft), ...shapeProblems(draft)]
  if (!problems.some((problem) => problem.field === 'tools')) problems.push(...toolProblems(draft, catalogue))
  problems.push(...conditionProblems(draft, catalogue, !problems.some((problem) => problem.field === 'tools')))
  if (problems.length > 0) return { kind: 'invalid', problems }
  const { name, tools, effect, mode, limit } = draft
  const rule = {
    name,
    tools: [...tools],
    when: draft.when,
    effect,
    mode,
    approvers: [...(draft.approvers ?? [])],
    ttlS: draft.ttlS ?? null,
    limit: limit == null ? null : { count: limit.count, per: limit.per },
  }
  return { kind: 'valid', rule }
}

/**
 * What is wrong with a rule on its own. A stored row is checked with it again: one that a build does not understand is
 * a fault of every call it might be about, because a rule that vanishes opens the gate it was written to close.
 */
export function shapeProblems(draft: RuleDraft): readonly RuleProblem[] {
  return [
    ...toolShapeProblems(draft),
    ...(draft.when === null || typeof draft.when === 'string'
      ? []
      : [problem('when', 'when is a condition, or null for every call')]),
    ...(EFFECTS.includes(draft.effect) ? [] : [problem('effect', 'effect is allow, deny or require_approval')]),
    ...(MODES.includes(draft.mode) ? [] : [problem('mode', 'mode is enforce or shadow')]),
    ...approverProblems(draft),
    ...ttlProblems(draft),
    ...limitProblems(draft),
  ]
}

function problem(field: RuleField, message: string): RuleProblem {
  return { field, message }
}

function nameProblems(draft: RuleDraft): readonly RuleProblem[] {
  if (typeof draft.name === 'string' && draft.name.normalize('NFC') === draft.name && RULE_NAME.test(draft.name))
    return []
  return [
    problem(
      'name',
      "a name has 1 to 80 letters, digits, spaces and . _ : ( ) ' / & + -, and starts and ends with a letter or digit",
    ),
  ]
}

function toolShapeProblems(draft: RuleDraft): readonly RuleProblem[] {
  const tools: unknown = draft.tools
  if (!Array.isArray(tools) || tools.length === 0) {
    return [problem('tools', 'name at least one tool, such as email.send, or * for every tool')]
  }
  if (tools.length > MAX_TOOLS)
    return [problem('tools', `name at most ${MAX_TOOLS} tools; a wildcard such as email.* names many`)]
  const strange = tools.filter((entry) => !isToolPattern(entry))
  if (strange.length > 0) {
    return strange.map((entry) =>
      problem(
        'tools',
        `${shown(String(entry))} is no tool; write a platform name such as email.send, a wildcard such as email.*, or *`,
      ),
    )
  }
  if (draft.effect !== 'allow') return []
  return tools
    .filter(isWildcard)
    .map((entry: string) =>
      problem(
        'tools',
        `${entry} may deny or require approval, never allow: it would also allow tools that do not exist yet; name them`,
      ),
    )
}

function approverProblems(draft: RuleDraft): readonly RuleProblem[] {
  const approvers: unknown = draft.approvers ?? []
  if (!Array.isArray(approvers) || approvers.length > MAX_APPROVERS) {
    return [problem('approvers', `approvers is a list of at most ${MAX_APPROVERS} user ids or role names`)]
  }
  const strange = approvers
    .filter((entry) => typeof entry !== 'string' || !APPROVER.test(entry))
    .map((entry) => problem('approvers', `${shown(String(entry))} is neither a user id nor the name of a role`))
  if (approvers.length === 0 || draft.effect === 'require_approval') return strange
  return [
    ...strange,
    problem('approvers', 'only a rule that requires approval has approvers; leave them out or change the effect'),
  ]
}

function ttlProblems(draft: RuleDraft): readonly RuleProblem[] {
  const ttlS: unknown = draft.ttlS ?? null
  if (ttlS === null) return []
  if (typeof ttlS !== 'number' || !Number.isInteger(ttlS) || ttlS < 1 || ttlS > MAX_TTL_S) {
    return [problem('ttlS', `ttlS is a whole number of seconds from 1 to ${MAX_TTL_S} (30 days)`)]
  }
  if (draft.effect === 'require_approval') return []
  return [
    problem('ttlS', 'only a rule that requires approval waits for an answer; leave ttlS out or change the effect'),
  ]
}

export function isRuleLimit(limit: unknown): limit is RuleLimit {
  if (!isJsonObject(limit) || Object.keys(limit).length !== 2) return false
  const { count, per } = limit as { readonly count?: unknown; readonly per?: unknown }
  return (
    typeof count === 'number' && Number.isInteger(count) && count >= 1 && count <= MAX_LIMIT && PERIODS.includes(per)
  )
}

function limitProblems(draft: RuleDraft): readonly RuleProblem[] {
  const limit: unknown = draft.limit ?? null
  if (limit === null) return []
  if (!isRuleLimit(limit)) {
    return [problem('limit', `limit is { count, per }: a whole number from 1 to ${MAX_LIMIT}, and run, hour or day`)]
  }
  if (draft.effect !== 'allow') return []
  return [
    problem(
      'limit',
      'a rule that allows has no limit: to allow so many and no more, deny or require approval with one',
    ),
  ]
}

/** A misspelt tool would be a rule that never applies, so every entry must be about a tool that exists. */
function toolProblems(draft: RuleDraft, catalogue: PolicyCatalogue): readonly RuleProblem[] {
  const names = [...catalogue.tools.keys()]
  return draft.tools.flatMap((entry, index) => {
    if (draft.tools.indexOf(entry) !== index) return [problem('tools', `${shown(entry)} is named twice`)]
    if (names.some((name) => matchesTool(entry, name))) return []
    const known = isWildcard(entry) ? [...new Set(names.map((name) => `${name.split('.')[0]}.*`))] : names
    const what = isWildcard(entry) ? `no tool matches ${shown(entry)}` : `there is no tool ${shown(entry)}`
    return [problem('tools', notFound(what, entry, { names: known, intro: 'There are' }))]
  })
}

function conditionProblems(draft: RuleDraft, catalogue: PolicyCatalogue, toolsKnown: boolean): readonly RuleProblem[] {
  if (typeof draft.when !== 'string') return []
  const compiled = compileExpression(draft.when, { facts: catalogue.facts })
  if (compiled.kind === 'invalid') {
    return [
      {
        field: 'when',
        message: compiled.message,
        ...(compiled.position === null ? {} : { position: compiled.position }),
      },
    ]
  }
  if (!toolsKnown) return []
  return [...compiled.expression.factPositions].flatMap(([fact, position]) => {
    const lacking = toolsWithout(fact, draft.tools, catalogue)
    if (lacking.length === 0) return []
    const message = `the fact ${fact} is not declared by ${listed(lacking)}; ${declaring(fact, catalogue)}`
    return [{ field: 'when' as const, message, position }]
  })
}

function toolsWithout(fact: string, patterns: readonly string[], catalogue: PolicyCatalogue): readonly string[] {
  return [...catalogue.tools]
    .filter(([tool, declared]) => patterns.some((pattern) => matchesTool(pattern, tool)) && !declared.includes(fact))
    .map(([tool]) => tool)
}

function declaring(fact: string, catalogue: PolicyCatalogue): string {
  const tools = [...catalogue.tools].filter(([, declared]) => declared.includes(fact)).map(([tool]) => tool)
  return tools.length === 0 ? 'no tool declares it' : `name only tools that do: ${listed(tools)}`
}
