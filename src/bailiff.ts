import { createCore, type Core } from './core.ts'
import type { Approval, ApprovalFilter } from './approvals/approval-store.ts'
import type { AnswerOutcome, Decider } from './approvals/service.ts'
import type { SecretSource } from './connections/connection.ts'
import type { ConnectionProvider } from './connections/provider.ts'
import type { VaultOptions } from './connections/vault/key-provider.ts'
import { manageAgents, noAgents, type ManagedAgents, type ManagedRuns } from './managed.ts'
import type { Observer } from './observing/observer.ts'
import type { AdvanceBudget, Advanced } from './runs/advance.ts'
import type { RuleLimit } from './decision/limits.ts'
import type { Effect } from './decision/stage-two.ts'
import type { Page } from './runs/run-store.ts'
import { validateRule, type RuleDraft, type RuleMode } from './policy/rule.ts'
import type { OrganizationSettings } from './storage/organization-store.ts'
import type { Database } from './storage/database.ts'
import type { ToolDeclaration } from './tools/declarations.ts'
import { ValidationError } from './tools/errors.ts'
import type { FactResolver } from './tools/handler.ts'
import type { Actor } from './tools/invocation.ts'
import type { ErrorReporter, Logger } from './tools/invoker.ts'
import type { PriceTable } from './usage/prices.ts'

/** A rule whose `tools` are checked against the declared tools, or wildcards such as `email.*` and `*`. */
export interface Rule<Name extends string> {
  readonly name: string
  readonly tools: readonly (Name | '*' | `${string}.*`)[]
  /**
   * CEL over `tool`, `egress`, `principal`, `run`, `arguments` and the facts the tools declare. Absent matches every call.
   * `run.tainted` is true once untrusted content entered the run tree, `run.taint_sources` names the tools it came from.
   */
  readonly when?: string
  readonly effect: Effect
  readonly mode?: RuleMode
  readonly approvers?: readonly string[]
  /** Seconds a person has to answer. */
  readonly ttlS?: number
  /**
   * Calls of the matched tools, all together, that may run before the effect applies. Hours and days are those of the
   * calendar in UTC; a run is its whole tree. A call counts once, when it is let through: not again when it is replayed
   * or taken over after a crash, and not at all when it was refused or came to nothing and left no claim. A read counts
   * when it begins.
   */
  readonly limit?: RuleLimit
}

export interface BailiffOptions<Declarations extends readonly ToolDeclaration[]> {
  readonly database: Database
  readonly tools: Declarations
  readonly facts?: readonly FactResolver[]
  /** The organization's rules as code: saved when they changed, removed when they are gone from here. */
  readonly rules?: readonly Rule<Declarations[number]['spec']['name']>[]
  /** The one organization this instance serves; `default` unless given. */
  readonly organization?: {
    readonly slug: string
    readonly name?: string
    readonly settings?: Partial<OrganizationSettings>
  }
  readonly secrets?: SecretSource
  /** Accounts that people can connect: `core.connections`. */
  readonly providers?: readonly ConnectionProvider[]
  /** Seals the secrets of those connections. */
  readonly vault?: VaultOptions
  readonly prices?: PriceTable
  readonly logger?: Logger
  readonly reporter?: ErrorReporter
  /** Told of calls, decisions, turns and runs: `openTelemetry()` of `bailiff/opentelemetry`, or your own. */
  readonly observers?: readonly Observer[]
  /** Agents whose model Bailiff asks itself. Not needed for a loop of your own. */
  readonly agents?: ManagedAgents
}

/** A person's answer, for an approvals screen of your own. */
export interface Answer {
  readonly id: string
  /** As shown to the person: `approval.argumentsHash`. */
  readonly argumentsHash: string
  readonly by: { readonly id: string; readonly name: string; readonly roles?: readonly string[] }
  readonly note?: string
  readonly outcome?: 'arrived' | 'send_again'
  /** With a rejection: the run is to stop as well. */
  readonly stopRun?: boolean
}

/** Governed tool calls for one organization. */
export interface Bailiff<Name extends string = string> {
  readonly organizationId: string
  readonly core: Core
  readonly approvals: {
    list(filter?: Partial<ApprovalFilter>): Promise<Page<Approval>>
    get(id: string): Promise<Approval | null>
    approve(answer: Answer): Promise<AnswerOutcome>
    reject(answer: Answer): Promise<AnswerOutcome>
    expireDue(): Promise<number>
  }
  readonly grants: {
    /** Live for the very next claim. */
    revoke(agent: string, tool: Name): Promise<{ readonly revoked: boolean; readonly inFlight: number }>
    grant(agent: string, tool: Name): Promise<void>
  }
  /** Of the agents; every verb raises when none were given. */
  readonly runs: ManagedRuns
  /**
   * Does what is due of this organization's runs, within a budget: for a cron route where no process lives on. Any number
   * of callers may overlap; each run is taken by one of them. What is left is there for the next call.
   */
  advance(budget?: AdvanceBudget): Promise<Advanced>
  close(): Promise<void>
}

const CODE: Actor = { kind: 'system', id: 'code', name: 'code' }

/**
 * Opens Bailiff on a database, for use inside your own program.
 * @throws RegistryError names every fault of every tool
 * @throws ValidationError names every fault of every rule
 */
export async function createBailiff<const Declarations extends readonly ToolDeclaration[]>(
  options: BailiffOptions<Declarations>,
): Promise<Bailiff<Declarations[number]['spec']['name']>> {
  const core = await createCore(options)
  const { slug, name = slug, settings } = options.organization ?? { slug: 'default' }
  const organization = await core.stores.organizations.ensure({
    id: core.newId(),
    slug,
    name,
    ...(settings === undefined ? {} : { settings }),
  })
  await syncRules(core, { organizationId: organization.id, rules: options.rules ?? [], by: CODE })
  const organizationId = organization.id
  const managed = options.agents === undefined ? noAgents() : await manageAgents(core, organizationId, options.agents)
  const answerOf = ({ id, argumentsHash, by, note, outcome, stopRun }: Answer) => {
    const decider: Decider = { actor: { kind: 'user', id: by.id, name: by.name }, roles: by.roles ?? [] }
    return {
      organizationId,
      approvalId: id,
      argumentsHash,
      decider,
      note: note ?? null,
      ...(outcome === undefined ? {} : { outcome }),
      ...(stopRun === undefined ? {} : { stopRun }),
    }
  }
  return {
    organizationId,
    core,
    approvals: {
      list: (filter) => core.approvals.list(organizationId, filter),
      get: (id) => core.approvals.get(organizationId, id),
      approve: (answer) => core.approvals.approve(answerOf(answer)),
      reject: (answer) => core.approvals.reject(answerOf(answer)),
      expireDue: () => core.approvals.expireDue(),
    },
    grants: {
      revoke: (agent, tool) => core.stores.grants.revoke({ organizationId, definition: agent, tool, by: CODE }),
      grant: (agent, tool) =>
        core.stores.grants.grant({ id: core.newId(), organizationId, definition: agent, tool, by: CODE }),
    },
    runs: managed.runs,
    advance: managed.advance,
    async close() {
      await managed.stop()
      await core.ledger.flush()
      await options.database.close()
    },
  }
}

/** Checks rules that are written as code and makes them the organization's, leaving rules that people wrote alone. */
export async function syncRules(
  core: Core,
  request: { readonly organizationId: string; readonly rules: readonly Rule<string>[]; readonly by: Actor },
): Promise<void> {
  const checked = request.rules.map((rule) => ({ rule, validation: validateRule(draftOf(rule), core.catalogue) }))
  const problems = checked.flatMap(({ rule, validation }) =>
    validation.kind === 'invalid'
      ? validation.problems.map((problem) => `${rule.name}, ${problem.field}: ${problem.message}`)
      : [],
  )
  if (problems.length > 0)
    throw new ValidationError(`${problems.length} fault(s) in the rules:\n${problems.join('\n')}`)
  const rules = checked.flatMap(({ validation }) =>
    validation.kind === 'valid' ? [{ ...validation.rule, id: core.newId() }] : [],
  )
  await core.stores.rules.sync({ organizationId: request.organizationId, by: request.by, rules })
}

function draftOf(rule: Rule<string>): RuleDraft {
  const { name, tools, when, effect, mode, approvers, ttlS, limit } = rule
  return {
    name,
    tools,
    when: when ?? null,
    effect,
    mode: mode ?? 'enforce',
    ...(approvers === undefined ? {} : { approvers }),
    ttlS: ttlS ?? null,
    limit: limit ?? null,
  }
}
