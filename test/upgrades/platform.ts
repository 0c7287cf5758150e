import { generateText, isStepCount } from 'ai'
import { z } from 'zod'
import { createBailiff, syncRules, type Bailiff, type Rule } from '../../src/bailiff.ts'
import { createCore, type Core } from '../../src/core.ts'
import { aiSdkFramework, governed, type GovernedRun, type GovernedSession } from '../../src/frameworks/ai-sdk/index.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import { connectionStore } from '../../src/storage/connection-store.ts'
import type { Database } from '../../src/storage/database.ts'
import { manualEngine, type ManualEngine } from '../../src/testing/manual-engine.ts'
import type { Script } from '../../src/testing/script.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { internalTool, vendorTool } from '../../src/tools/declarations.ts'
import type { Actor } from '../../src/tools/invocation.ts'
import { ok } from '../../src/tools/models.ts'

/*
 * The deployment that the stored examples were recorded with. It stays as it is: a changed contract would make a
 * recorded question stale, and that has to come from the build under test alone.
 */

export const ADA: Actor = { kind: 'user', id: '00000000-0000-4000-8000-0000000000ad', name: 'Ada' }
const BEN: Actor = { kind: 'user', id: '00000000-0000-4000-8000-0000000000be', name: 'Ben' }
const DEPLOYMENT: Actor = { kind: 'system', id: 'deployment', name: 'deployment' }

/** What reached the outside, in order. */
export type Effects = string[]

export interface Platform {
  readonly core: Core
  readonly runtime: Runtime
  readonly engine: ManualEngine
  readonly organizationId: string
}

/** Finds an order, writes a note, mails a customer, and tells what it was answered. */
const remind: Script = ({ turns, input }) =>
  turns.length === 0
    ? {
        text: 'Let me see.',
        calls: [
          { tool: 'orders.find', args: { id: 'A1' } },
          { tool: 'notes.write', args: { text: `asked: ${input}` } },
          { tool: 'mail.send', args: { to: 'jo@acme.test', subject: 'Your order' } },
        ],
      }
    : { text: JSON.stringify(turns[0]?.calls.map((call) => call.result)) }

const RULES: readonly Rule<string>[] = [
  { name: 'mail waits', tools: ['mail.send'], when: 'arguments.to != "staff@acme.test"', effect: 'require_approval' },
  { name: 'few notes', tools: ['notes.write'], effect: 'deny', limit: { count: 50, per: 'run' } },
]

/** What a start of the deployment does on a database, new or not. */
export async function startPlatform(database: Database, effects: Effects): Promise<Platform> {
  const core = await createCore({ database, tools: tools(effects), secrets: { read: () => Promise.resolve({}) } })
  const organization = await core.stores.organizations.ensure({ id: core.newId(), slug: 'acme', name: 'Acme' })
  const organizationId = organization.id
  const engine = manualEngine()
  const model = scriptedModel({ name: 'scripted/remind', next: remind })
  const runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
    engine,
    defaultModel: 'scripted/remind',
    maxFailures: 2,
  })
  await syncRules(core, { organizationId, rules: RULES, by: DEPLOYMENT })
  await connectionStore(database).ensure({ organizationId, provider: 'mail', label: 'post', settings: {} })
  await runtime.runs.publish(
    organizationId,
    {
      slug: 'reminder',
      instructions: 'Remind customers of their orders.',
      tools: ['orders.find', 'notes.write', 'mail.send'],
      model: null,
      ceilings: DEFAULT_CEILINGS,
    },
    DEPLOYMENT,
  )
  await runtime.start()
  return { core, runtime, engine, organizationId }
}

export interface OwnLoop {
  readonly bailiff: Bailiff
  readonly session: GovernedSession
}

const OWN_TOOLS = ['orders.find', 'notes.write'] as const

/** A second organization on the same database, whose loop belongs to its own code. */
export async function startOwnLoop(database: Database, effects: Effects): Promise<OwnLoop> {
  const bailiff = await createBailiff({
    database,
    tools: tools(effects),
    organization: { slug: 'own' },
    rules: [
      { name: 'notes wait', tools: ['notes.write'], when: 'arguments.text != "internal"', effect: 'require_approval' },
    ],
  })
  return { bailiff, session: await governed(bailiff, { agent: 'clerk', tools: OWN_TOOLS }) }
}

/** Plays the loop until it waits, ends or fails. */
export async function converse(run: GovernedRun): Promise<void> {
  const next: Script = ({ turns }) => {
    if (turns.length === 0) return { text: 'Let me see.', calls: [{ tool: 'orders.find', args: { id: 'B2' } }] }
    if (turns.length > 1) return { text: JSON.stringify(turns[1]?.calls.map((call) => call.result)) }
    return { calls: ['internal', 'for Jo'].map((text) => ({ tool: 'notes.write', args: { text } })) }
  }
  const model = scriptedModel({ name: 'scripted/clerk', next })
  while (run.status.kind === 'ready') {
    const { messages, tools, stopWhen } = run
    await run.drain(await generateText({ model, messages, tools, stopWhen: [isStepCount(5), stopWhen], maxRetries: 0 }))
  }
}

/** Ben says yes to everything that waits; answers how much that was. */
export async function approveAll(core: Core, organizationId: string): Promise<number> {
  const { items } = await core.approvals.list(organizationId, { state: 'pending' })
  for (const { id, argumentsHash } of items) {
    const decider = { actor: BEN, roles: ['approver'] }
    const answered = await core.approvals.approve({
      organizationId,
      approvalId: id,
      argumentsHash,
      decider,
      note: null,
    })
    if (answered.kind !== 'answered') throw new Error(`the answer was ${JSON.stringify(answered)}`)
  }
  return items.length
}

function tools(effects: Effects) {
  return [
    internalTool({
      name: 'orders.find',
      description: 'Find one order.',
      input: z.object({ id: z.string() }),
      output: z.object({ id: z.string(), customer: z.string() }),
      sideEffects: 'read',
      handler: async (_invocation, { id }) => ok({ id, customer: 'Jo' }, { untrusted: id === 'A1' }),
    }),
    internalTool({
      name: 'notes.write',
      description: 'Write a note.',
      input: z.object({ text: z.string().max(200) }),
      output: z.object({ written: z.boolean() }),
      sideEffects: 'write',
      repeatable: false,
      handler: async (_invocation, { text }) => {
        effects.push(`note ${text}`)
        return ok({ written: true })
      },
    }),
    vendorTool({
      name: 'mail.send',
      description: 'Send one mail.',
      input: z.object({ to: z.email(), subject: z.string().default('Hello') }),
      output: z.object({ accepted: z.string() }),
      sideEffects: 'send',
      connection: 'mail',
      repeatable: false,
      handler: {
        async execute(_invocation, { to, subject }) {
          effects.push(`mail to ${to}: ${subject}`)
          return ok({ accepted: to })
        },
        preview: async (_invocation, { to, subject }) => `Mail "${subject}" to ${to}`,
      },
    }),
  ] as const
}
