/*
 * One process of a governed deployment, for tests that kill it. It takes its orders as JSON in argv, sends real mail,
 * and writes a line for each thing that happened. It ends by itself when the run is parked or over.
 */
import { readFile } from 'node:fs/promises'
import { createCore } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { scopedPeople } from '../../src/handlers/crm/index.ts'
import { emailTools, recipientIsNew } from '../../src/handlers/email/index.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { createRuntime } from '../../src/runtime.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { pgliteDatabase } from '../../src/storage/pglite/index.ts'
import { recoverInterrupted } from '../../src/storage/recovery.ts'
import { scopedDb } from '../../src/storage/scoped-db.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import type { Actor } from '../../src/tools/invocation.ts'

export interface Orders {
  readonly database: { readonly folder: string; readonly image: string } | { readonly url: string }
  readonly smtpPort: number
  /** `start` begins a run and works until it stops; `approve` only answers; `resume` works on what is there. */
  readonly action: 'start' | 'approve' | 'resume'
  /** Kills this process with SIGKILL when the model is asked for the turn after the send. */
  readonly killBeforeLastTurn?: boolean
  /** Kills this process when the mail server has taken the message and before the platform hears of it. */
  readonly killAfterSend?: boolean
  /** Provider failures before the turn after the send succeeds. */
  readonly failLastTurn?: number
}

const orders = JSON.parse(process.argv[2] ?? '') as Orders
const OWNER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }
const APPROVER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000b', name: 'Ben' }

const say = (line: Record<string, unknown>): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
const die = (): never => {
  process.kill(process.pid, 'SIGKILL')
  throw new Error('killed')
}

const embedded =
  'folder' in orders.database
    ? await pgliteDatabase({
        dataDir: orders.database.folder,
        image: new Blob([await readFile(orders.database.image)]),
      })
    : null
const database =
  embedded ?? (await pgDatabase({ connectionString: 'url' in orders.database ? orders.database.url : '' }))
const people = scopedPeople((organizationId) => scopedDb(database, organizationId))
const tools = emailTools({ recipients: people }).map((tool) =>
  orders.killAfterSend === true
    ? {
        ...tool,
        handler: {
          ...tool.handler,
          execute: async (...call: Parameters<typeof tool.handler.execute>) => (
            await tool.handler.execute(...call),
            die()
          ),
        },
      }
    : tool,
)
const core = await createCore({ database, tools, facts: [recipientIsNew(people)] })
if (embedded !== null) await recoverInterrupted(database)
const organization = await core.stores.organizations.ensure({ id: core.newId(), slug: 'crash', name: 'Crash' })
const organizationId = organization.id
const settings = { host: '127.0.0.1', port: String(orders.smtpPort), security: 'none', from: 'demo@bailiff.test' }
await core.stores.connections.create({ organizationId, provider: 'email', label: 'outbox', settings })

const model = scriptedModel({
  name: 'scripted/crash',
  next({ turns }) {
    if (turns.length === 0)
      return { calls: [{ tool: 'email.send', args: { to: ['jo@acme.test'], subject: 'Hello', body: 'Hi Jo' } }] }
    if (orders.killBeforeLastTurn === true) return die()
    return {
      text: 'sent',
      ...(orders.failLastTurn === undefined
        ? {}
        : { fail: new Error('the provider is down'), failTimes: orders.failLastTurn }),
    }
  },
})
const engine = embeddedEngine({
  database:
    embedded === null
      ? { dialect: 'postgres', connectionString: 'url' in orders.database ? orders.database.url : '' }
      : { dialect: 'pglite', raw: embedded.raw },
  logger: core.logger,
  sweepMs: 200,
})
const runtime = createRuntime(core, {
  frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
  engine,
  defaultModel: 'scripted/crash',
  staleS: 2,
  beatS: 0.5,
})
const { runs } = runtime

if (orders.action === 'approve') {
  for (const { id, argumentsHash, kind } of (await core.approvals.list(organizationId, { state: 'pending' })).items) {
    const outcome = kind === 'outcome' ? { outcome: 'arrived' as const } : {}
    const answer = await core.approvals.approve({
      organizationId,
      approvalId: id,
      argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
      ...outcome,
    })
    say({ approved: answer.kind, question: kind })
  }
} else {
  await runtime.start()
  if (orders.action === 'start') {
    await runs.publish(
      organizationId,
      { slug: 'mailer', instructions: 'Send.', tools: ['email.send'], model: null, ceilings: DEFAULT_CEILINGS },
      OWNER,
    )
    await runs.start({ organizationId, definition: 'mailer', input: 'go', startedBy: OWNER, source: 'api' })
  }
  for (;;) {
    const [run] = (await runs.list(organizationId, { limit: 1 })).items
    const waiting = (await core.approvals.list(organizationId, { state: 'pending' })).items.length
    if (run !== undefined && (run.endedAt !== null || (run.status === 'parked' && waiting > 0))) {
      say({ run: run.status, reason: run.reason, output: run.output })
      break
    }
    const { promise: tick, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, 20)
    await tick
  }
  await runtime.stop(1_000)
}
await database.close()
