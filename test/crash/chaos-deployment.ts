import { createCore, type Core } from '../../src/core.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { scopedPeople } from '../../src/handlers/crm/index.ts'
import { emailTools, recipientIsNew } from '../../src/handlers/email/index.ts'
import { DEFAULT_CEILINGS, type AgentDefinition } from '../../src/runs/definition.ts'
import { createRuntime, type Runtime } from '../../src/runtime.ts'
import type { WorkflowDefinition, WorkflowNode } from '../../src/runs/workflow/definition.ts'
import type { Database } from '../../src/storage/database.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { scopedDb } from '../../src/storage/scoped-db.ts'
import type { Script, ScriptedCall } from '../../src/testing/script.ts'
import type { Actor } from '../../src/tools/invocation.ts'

/* What the servers of a chaos run and their parent have in common. */

export const CHAOS_LIMITS = { interactive: 5, batch: 2 } as const

/** Hearts that stop soon, so that what a killed process held is taken over while the next one is killed. */
export const CHAOS_RULES = { staleS: 2, beatS: 0.4, lanes: CHAOS_LIMITS } as const

export const DECIDER = {
  actor: { kind: 'user', id: '00000000-0000-4000-8000-00000000000b', name: 'Ben' },
  roles: ['approver'],
} as const

export const STARTER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }

export const CHAOS_AGENT: AgentDefinition = {
  slug: 'chaos',
  instructions: 'Write three mails.',
  tools: ['email.send'],
  model: null,
  ceilings: DEFAULT_CEILINGS,
}

/** Addresses a rule lets pass; every other one is asked about. */
const FREE = 'free.test'

const CHILD_INSTRUCTIONS = 'Write the third mail.'

const CHAOS_CHILD: AgentDefinition = { ...CHAOS_AGENT, slug: 'chaos-child', instructions: CHILD_INSTRUCTIONS }

const mail = (id: string, host: string): WorkflowNode => ({
  kind: 'tool',
  id,
  tool: 'email.send',
  args: { to: [{ $expr: `"${id}-" + input + "@${host}"` }], subject: 'Hello', body: 'Hi' },
})

/** The same three mails: one at once, one after a time and an answer, and one by a run of its own. */
export const CHAOS_WORKFLOW: WorkflowDefinition = {
  kind: 'workflow',
  slug: 'chaos-flow',
  ceilings: DEFAULT_CEILINGS,
  root: {
    kind: 'sequence',
    id: 'all',
    nodes: [
      mail('first', FREE),
      { kind: 'wait', id: 'rest', forS: 2 },
      mail('second', 'held.test'),
      { kind: 'agent', id: 'child', definition: CHAOS_CHILD.slug, input: { $expr: 'input' } },
    ],
  },
}

/** Who gets a mail of the run with this input: each exactly one. */
export function recipientsOf(input: string): readonly string[] {
  return [`first-${input}@${FREE}`, `second-${input}@held.test`, `third-${input}@held.test`]
}

/** Two mails in one turn, of which one is held, and a third that is held in a turn of its own; a child writes that one alone. */
export const chaosScript: Script = ({ input, turns, instructions }) => {
  const [first, second, third] = recipientsOf(input).map((to): ScriptedCall => ({
    tool: 'email.send',
    args: { to: [to], subject: `Hello ${input}`, body: 'Hi' },
  }))
  if (first === undefined || second === undefined || third === undefined) throw new Error('three mails are missing')
  const mails = instructions === CHILD_INSTRUCTIONS ? [[third]] : [[first, second], [third]]
  const calls = mails[turns.length]
  return calls === undefined ? { text: `sent ${input}` } : { calls }
}

export function chaosParts(database: Database) {
  const people = scopedPeople((organizationId) => scopedDb(database, organizationId))
  return { tools: emailTools({ recipients: people }), facts: [recipientIsNew(people)] }
}

export interface ChaosDeployment {
  readonly core: Core
  /** Starts, answers and pauses; it runs no segment. */
  readonly runtime: Runtime
  readonly organizationId: string
}

/** The organization with its mailbox, its rule and its agent. Its database is the caller's to close. */
export async function chaosDeployment(url: string, smtpPort: number): Promise<ChaosDeployment> {
  const database = await pgDatabase({ connectionString: url })
  const core = await createCore({ database, ...chaosParts(database) })
  const chaos = { id: core.newId(), slug: 'chaos', name: 'Chaos' }
  const { id: organizationId } = await core.stores.organizations.ensure(chaos)
  await core.stores.connections.create({
    organizationId,
    provider: 'email',
    label: 'outbox',
    settings: { host: '127.0.0.1', port: String(smtpPort), security: 'none', from: 'demo@bailiff.test' },
  })
  const when = `arguments.to.all(to, to.endsWith("@${FREE}"))`
  const free = { id: core.newId(), name: 'free addresses', tools: ['email.send'], when }
  const allowed = { effect: 'allow', mode: 'enforce', approvers: [], ttlS: null, limit: null } as const
  await core.stores.rules.sync({ organizationId, by: DECIDER.actor, rules: [{ ...free, ...allowed }] })
  const nothing = (): never => {
    throw new Error('this process runs nothing')
  }
  const runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: nothing })],
    defaultModel: 'scripted/chaos',
    ...CHAOS_RULES,
  })
  for (const definition of [CHAOS_AGENT, CHAOS_CHILD, CHAOS_WORKFLOW])
    await runtime.runs.publish(organizationId, definition, DECIDER.actor)
  return { core, runtime, organizationId }
}
