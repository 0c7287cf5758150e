import { z } from 'zod'
import { createCore, type Core, type Instrument } from '../../src/core.ts'
import type { Rule } from '../../src/bailiff.ts'
import { syncRules } from '../../src/bailiff.ts'
import type { SecretSource } from '../../src/connections/connection.ts'
import type { ConnectionProvider } from '../../src/connections/provider.ts'
import type { VaultOptions } from '../../src/connections/vault/key-provider.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import type { Observer } from '../../src/observing/observer.ts'
import type { JobProvider } from '../../src/provider-jobs/adapter.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import type { DurableEngine } from '../../src/runs/engine.ts'
import type { LaneLimits } from '../../src/runs/lane.ts'
import type { RunRow } from '../../src/runs/run-store.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import type { OrganizationSettings } from '../../src/storage/organization-store.ts'
import type { Database } from '../../src/storage/database.ts'
import { manualEngine, type ManualEngine } from '../../src/testing/manual-engine.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import type { Script } from '../../src/testing/script.ts'
import { internalTool, vendorTool, type ToolDeclaration } from '../../src/tools/declarations.ts'
import type { FactResolver } from '../../src/tools/handler.ts'
import type { Actor, RunCeilings, ToolInvocation } from '../../src/tools/invocation.ts'
import type { ErrorReporter, Logger } from '../../src/tools/invoker.ts'
import { ok } from '../../src/tools/models.ts'
import { watchedLogger, watchedReporter } from './canary-sweep.ts'
import { ORGANIZATION } from './provided.ts'
import type { PriceTable } from '../../src/usage/prices.ts'

export const STARTER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }
export const APPROVER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000b', name: 'Ben' }

const USUAL = 'acme'

/** What reached the outside, counted where it arrives. */
export interface Effects {
  readonly sent: { to: string; subject: string }[]
  readonly notes: string[]
  readonly searches: string[]
}

export interface WorldOptions {
  readonly database: Database
  readonly script?: Script
  readonly rules?: readonly Rule<string>[]
  readonly settings?: Partial<OrganizationSettings>
  readonly extraTools?: readonly ToolDeclaration[]
  readonly facts?: readonly FactResolver[]
  readonly agentTools?: readonly string[]
  readonly ceilings?: Partial<RunCeilings>
  readonly reporter?: ErrorReporter
  readonly logger?: Logger
  /** Of an organization beside the usual one, which is the only one a member sees. */
  readonly slug?: string
  /** The secret half of the connections; there is none unless given. */
  readonly secrets?: SecretSource
  readonly providers?: readonly ConnectionProvider[]
  readonly vault?: VaultOptions
  readonly now?: () => Date
  readonly effects?: Effects
  readonly prices?: PriceTable
  readonly lanes?: Partial<LaneLimits>
  /** Instead of the manual one, which then has nothing to do. */
  readonly durable?: DurableEngine
  readonly observers?: readonly Observer[]
  readonly jobProviders?: readonly JobProvider[]
  readonly instrument?: Instrument
  /** Runs inside `email.send`, before the message counts as sent. */
  readonly onSend?: (to: string) => Promise<void>
  /** Runs inside `email.send`, after the message counts as sent. */
  readonly afterSend?: (to: string) => Promise<void>
}

export interface World {
  readonly core: Core
  readonly runtime: Runtime
  readonly engine: ManualEngine
  readonly organizationId: string
  readonly effects: Effects
  start(input?: string): Promise<RunRow>
  run(runId: string): Promise<RunRow>
  pending(
    runId: string,
  ): Promise<readonly { id: string; argumentsHash: string; tool: string; preview: string | null }[]>
  approve(runId: string): Promise<void>
  reject(runId: string, note?: string): Promise<void>
  spans(
    runId: string,
  ): Promise<readonly { name: string; status: string; code: string | null; attributes: Record<string, unknown> }[]>
  /** An invocation of its own run row, for calls made without a model. */
  invocation(tools?: readonly string[]): Promise<ToolInvocation>
}

/** Three tools, one organization and one agent on a real database. */
export async function world(options: WorldOptions): Promise<World> {
  const effects = options.effects ?? { sent: [], notes: [], searches: [] }
  const core = await createCore({
    database: options.database,
    tools: [...demoTools(effects, options), ...(options.extraTools ?? [])],
    facts: options.facts ?? [],
    secrets: options.secrets ?? { read: () => Promise.resolve({}) },
    ...(options.providers === undefined ? {} : { providers: options.providers }),
    ...(options.vault === undefined ? {} : { vault: options.vault }),
    reporter: options.reporter ?? watchedReporter,
    logger: options.logger ?? watchedLogger,
    ...(options.now === undefined ? {} : { now: options.now }),
    ...(options.prices === undefined ? {} : { prices: options.prices }),
    ...(options.observers === undefined ? {} : { observers: options.observers }),
    ...(options.jobProviders === undefined ? {} : { jobProviders: options.jobProviders }),
    ...(options.instrument === undefined ? {} : { instrument: options.instrument }),
  })
  const slug = options.slug ?? USUAL
  const organization = await core.stores.organizations.ensure({
    id: slug === USUAL ? ORGANIZATION : core.newId(),
    slug,
    name: slug,
    settings: options.settings ?? {},
  })
  const organizationId = organization.id
  await core.stores.connections.create({
    organizationId,
    provider: 'email',
    label: 'outbox',
    settings: {},
  })
  await syncRules(core, {
    organizationId,
    rules: options.rules ?? [],
    by: { kind: 'system', id: 'test', name: 'test' },
  })
  const engine = manualEngine()
  const model = scriptedModel({ name: 'scripted/test', next: options.script ?? (() => ({ text: 'done' })) })
  const runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
    engine: options.durable ?? engine,
    defaultModel: 'scripted/test',
    maxFailures: 2,
    ...(options.lanes === undefined ? {} : { lanes: options.lanes }),
  })
  await runtime.start()
  const tools = options.agentTools ?? [
    'crm.search',
    'crm.note',
    'email.send',
    ...(options.extraTools ?? []).map((tool) => tool.spec.name),
  ]
  const ceilings = { ...DEFAULT_CEILINGS, ...options.ceilings }
  await runtime.runs.publish(
    organizationId,
    { slug: 'outreach', instructions: 'Write to people.', tools, model: null, ceilings },
    STARTER,
  )
  return worldOf({ core, runtime, engine, organizationId, effects })
}

function worldOf(parts: Pick<World, 'core' | 'runtime' | 'engine' | 'organizationId' | 'effects'>): World {
  const { core, runtime, organizationId } = parts
  const answer = async (runId: string, how: 'approve' | 'reject', note?: string): Promise<void> => {
    const { items } = await core.approvals.list(organizationId, { runId, state: 'pending' })
    for (const item of items) {
      const outcome = await core.approvals[how]({
        organizationId,
        approvalId: item.id,
        argumentsHash: item.argumentsHash,
        decider: { actor: APPROVER, roles: ['approver'] },
        note: note ?? null,
      })
      if (outcome.kind !== 'answered') throw new Error(`the answer was ${outcome.kind}`)
    }
  }
  const run = async (runId: string): Promise<RunRow> => {
    const row = await runtime.runs.get(organizationId, runId)
    if (row === null) throw new Error(`no run ${runId}`)
    return row
  }
  return {
    ...parts,
    run,
    start: (input = 'go') =>
      runtime.runs.start({ organizationId, definition: 'outreach', input, startedBy: STARTER, source: 'api' }),
    async pending(runId) {
      return (await core.approvals.list(organizationId, { runId, state: 'pending' })).items
    },
    approve: (runId) => answer(runId, 'approve'),
    reject: (runId, note) => answer(runId, 'reject', note),
    async spans(runId) {
      await core.ledger.flush()
      return core.stores.spans.tree(organizationId, runId)
    },
    async invocation(tools) {
      const row = await runtime.runs.start({
        organizationId,
        definition: 'outreach',
        input: 'direct',
        startedBy: STARTER,
        source: 'library',
      })
      const { snapshot } = row
      const shown = tools ?? Object.keys(snapshot.contracts)
      return {
        organizationId,
        userId: STARTER.id,
        runId: row.id,
        definitionId: row.definitionId,
        stepPath: 'agent',
        principal: snapshot.principal,
        ceilings: snapshot.ceilings,
        deadline: row.deadline,
        source: 'library',
        contracts: Object.fromEntries(core.registry.resolve(shown).map((spec) => [spec.name, spec])),
      }
    },
  }
}

/** Runs a call as a run does: inside the scope of its own run tree. */
export function inRun<T>(core: Core, invocation: ToolInvocation, work: () => Promise<T>): Promise<T> {
  const { organizationId, runId } = invocation
  return core.ambient.enter({ organizationId, runId, rootRunId: runId, spanId: runId }, work)
}

function demoTools(effects: Effects, options: WorldOptions): readonly ToolDeclaration[] {
  return [
    internalTool({
      name: 'crm.search',
      description: 'Find people.',
      input: z.object({ query: z.string() }),
      output: z.array(z.object({ id: z.string(), name: z.string() })),
      sideEffects: 'read',
      handler: async (_invocation, { query }) => {
        effects.searches.push(query)
        return ok([{ id: 'p1', name: query }])
      },
    }),
    internalTool({
      name: 'crm.note',
      description: 'Write a note.',
      input: z.object({ text: z.string() }),
      output: z.object({ id: z.string() }),
      sideEffects: 'write',
      repeatable: false,
      handler: async (_invocation, { text }) => {
        effects.notes.push(text)
        return ok({ id: `n${effects.notes.length}` })
      },
    }),
    vendorTool({
      name: 'email.send',
      description: 'Send one message.',
      input: z.object({ to: z.string(), subject: z.string().default('hello') }),
      output: z.object({ accepted: z.string() }),
      sideEffects: 'send',
      connection: 'email',
      repeatable: false,
      policyFacts: (options.facts ?? []).map((fact) => fact.name),
      handler: {
        async execute(_invocation, { to, subject }) {
          await options.onSend?.(to)
          effects.sent.push({ to, subject })
          await options.afterSend?.(to)
          return ok({ accepted: to })
        },
        preview: async (_invocation, { to, subject }) => `Email "${subject}" to ${to}`,
      },
    }),
  ]
}
