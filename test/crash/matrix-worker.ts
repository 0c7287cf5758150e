/*
 * One process of a governed deployment that dies at a named point. Its orders come as JSON in argv; it works until its
 * run is parked on a question or over, and says which.
 */
import { z } from 'zod'
import { createCore } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { scopedPeople } from '../../src/handlers/crm/index.ts'
import { emailTools, recipientIsNew } from '../../src/handlers/email/index.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { createRuntime } from '../../src/runtime.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { scopedDb } from '../../src/storage/scoped-db.ts'
import { withCrashPoints, type CrashPoint } from '../../src/testing/crash-points.ts'
import type { ScriptedCall } from '../../src/testing/script.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { internalTool, type ToolDeclaration } from '../../src/tools/declarations.ts'
import { ok } from '../../src/tools/models.ts'

export type Scenario = 'write' | 'send' | 'approved send' | 'batch of three' | 'reclaimed write'

export interface MatrixOrders {
  readonly url: string
  readonly smtpPort: number
  readonly httpPort: number
  readonly scenario: Scenario
  readonly start: boolean
  /** Dies when this point is reached for the nth time; without one, only counts the points. */
  readonly die: { readonly point: CrashPoint; readonly nth: number } | null
}

const orders = JSON.parse(process.argv[2] ?? '') as MatrixOrders
const OWNER = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' } as const

const reached = new Map<CrashPoint, number>()
const reach = (point: CrashPoint): void => {
  const times = (reached.get(point) ?? 0) + 1
  reached.set(point, times)
  if (orders.die?.point === point && orders.die.nth === times) process.kill(process.pid, 'SIGKILL')
}
const instrument = withCrashPoints(reach)

/** Posts to a receiver. With its key passed on, a repeat is recognised there; without, it is a second effect. */
function posting(name: string, options: { readonly downstreamKey: boolean }): ToolDeclaration {
  return internalTool({
    name,
    description: 'Posts a note to the receiver.',
    input: z.object({ note: z.string() }),
    output: z.object({ status: z.int() }),
    sideEffects: 'write',
    repeatable: false,
    downstreamKey: options.downstreamKey,
    handler: async (_invocation, { note }, { idempotencyKey, signal }) => {
      const headers = options.downstreamKey ? { 'idempotency-key': idempotencyKey ?? '' } : {}
      const response = await fetch(`http://127.0.0.1:${orders.httpPort}/`, {
        method: 'POST',
        body: note,
        headers,
        signal,
      })
      await response.text()
      return ok({ status: response.status })
    },
  })
}

const mail = (to: string): ScriptedCall => ({ tool: 'email.send', args: { to: [to], subject: 'Hello', body: 'Hi' } })
const note = (tool: string, text: string): ScriptedCall => ({ tool, args: { note: text } })

const PROPOSALS: Readonly<Record<Scenario, readonly ScriptedCall[]>> = {
  write: [note('notes.post', 'a')],
  send: [mail('jo@free.test')],
  'approved send': [mail('jo@held.test')],
  'batch of three': [note('notes.post', 'a'), mail('jo@held.test'), mail('sam@held.test')],
  'reclaimed write': [note('notes.append', 'a')],
}

const database = await pgDatabase({ connectionString: orders.url })
const people = scopedPeople((organizationId) => scopedDb(database, organizationId))
const tools = [
  posting('notes.post', { downstreamKey: true }),
  posting('notes.append', { downstreamKey: false }),
  ...emailTools({ recipients: people }),
].map((tool): ToolDeclaration => ({ ...tool, handler: instrument('handler', tool.handler) }))
const core = await createCore({ database, tools, facts: [recipientIsNew(people)], instrument })
const organization = await core.stores.organizations.ensure({ id: core.newId(), slug: 'crash', name: 'Crash' })
const organizationId = organization.id
await core.stores.connections.create({
  organizationId,
  provider: 'email',
  label: 'outbox',
  settings: { host: '127.0.0.1', port: String(orders.smtpPort), security: 'none', from: 'demo@bailiff.test' },
})
await core.stores.rules.sync({
  organizationId,
  by: { kind: 'system', id: 'code', name: 'code' },
  rules: [
    {
      id: core.newId(),
      name: 'free addresses',
      tools: ['email.send'],
      when: 'arguments.to.all(to, to.endsWith("@free.test"))',
      effect: 'allow',
      mode: 'enforce',
      approvers: [],
      ttlS: null,
      limit: null,
    },
  ],
})
const model = scriptedModel({
  name: 'scripted/crash',
  next({ turns }) {
    reach('model.turn:before')
    return turns.length === 0 ? { calls: PROPOSALS[orders.scenario] } : { text: 'done' }
  },
})
const engine = embeddedEngine({
  database: { dialect: 'postgres', connectionString: orders.url },
  logger: core.logger,
  sweepMs: 100,
})
const framework = aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })
const runtime = createRuntime(core, {
  frameworks: [framework],
  engine,
  defaultModel: 'scripted/crash',
  staleS: 0.5,
  beatS: 0.1,
})
await runtime.start()
if (orders.start) {
  const ceilings = DEFAULT_CEILINGS
  const agent = { slug: 'crash', instructions: 'Work.', tools: core.registry.names(), model: null, ceilings }
  await runtime.runs.publish(organizationId, agent, OWNER)
  await runtime.runs.start({ organizationId, definition: 'crash', input: 'go', startedBy: OWNER, source: 'api' })
}
for (;;) {
  const [run] = (await runtime.runs.list(organizationId, { limit: 1 })).items
  const waiting = (await core.approvals.list(organizationId, { state: 'pending' })).items.length
  if (run === undefined || run.endedAt !== null || (run.status === 'parked' && waiting > 0)) {
    process.stdout.write(`${JSON.stringify({ status: run?.status ?? 'missing', points: [...reached] })}\n`)
    break
  }
  const { promise: tick, resolve } = Promise.withResolvers<void>()
  setTimeout(resolve, 10)
  await tick
}
await runtime.stop(1_000)
await database.close()
