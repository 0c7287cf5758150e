/*
 * One process of a deployment that works on workflows, for tests that kill it. It takes its orders as JSON in argv, writes
 * to a receiver over HTTP, and ends by itself when the run is over.
 */
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { createCore } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { agent, expr, map, sequence, tool, workflow } from '../../src/runs/workflow/index.ts'
import { createRuntime } from '../../src/runtime.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { pgliteDatabase } from '../../src/storage/pglite/index.ts'
import { recoverInterrupted } from '../../src/storage/recovery.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { internalTool } from '../../src/tools/declarations.ts'
import type { Actor } from '../../src/tools/invocation.ts'
import { ok } from '../../src/tools/models.ts'

export interface WorkflowOrders {
  readonly database: { readonly folder: string; readonly image: string } | { readonly url: string }
  readonly receiver: string
  readonly start: boolean
  /** Kills this process with SIGKILL once the receiver has taken this text, before the platform hears of it. */
  readonly dieAfter: string | null
}

const orders = JSON.parse(process.argv[2] ?? '') as WorkflowOrders
const OWNER: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000a', name: 'Ada' }

const embedded =
  'folder' in orders.database
    ? await pgliteDatabase({
        dataDir: orders.database.folder,
        image: new Blob([await readFile(orders.database.image)]),
      })
    : null
const database =
  embedded ?? (await pgDatabase({ connectionString: 'url' in orders.database ? orders.database.url : '' }))

const write = internalTool({
  name: 'test.write',
  description: 'Write to the receiver.',
  input: z.object({ text: z.string() }),
  output: z.object({ text: z.string() }),
  sideEffects: 'write',
  repeatable: false,
  downstreamKey: true,
  handler: async (_invocation, { text }, { idempotencyKey }) => {
    await fetch(orders.receiver, { method: 'POST', body: text, headers: { 'idempotency-key': idempotencyKey ?? '' } })
    if (text === orders.dieAfter) process.kill(process.pid, 'SIGKILL')
    return ok({ text })
  },
})

const policyDefaults = { read: 'allow', write: 'allow', send: 'allow' } as const
const core = await createCore({ database, tools: [write] })
if (embedded !== null) await recoverInterrupted(database)
const { id: organizationId } = await core.stores.organizations.ensure({
  id: core.newId(),
  slug: 'crash',
  name: 'Crash',
  settings: { policyDefaults },
})
const model = scriptedModel({
  name: 'scripted/crash',
  next: ({ input, turns }) =>
    turns.length === 0 ? { calls: [{ tool: 'test.write', args: { text: input } }] } : { text: `wrote ${input}` },
})
const runtime = createRuntime(core, {
  frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
  engine: embeddedEngine({
    database:
      embedded === null
        ? { dialect: 'postgres', connectionString: 'url' in orders.database ? orders.database.url : '' }
        : { dialect: 'pglite', raw: embedded.raw },
    logger: core.logger,
    sweepMs: 200,
  }),
  defaultModel: 'scripted/crash',
  staleS: 2,
  beatS: 0.5,
})
const call = (id: string, text: string) => tool(id, { tool: 'test.write', args: { text: expr(text) } })
await runtime.start()
if (orders.start) {
  const writer = {
    slug: 'writer',
    instructions: 'Write.',
    tools: ['test.write'],
    model: null,
    ceilings: DEFAULT_CEILINGS,
  }
  await runtime.runs.publish(organizationId, writer, OWNER)
  const root = sequence('main', [
    call('first', '"first"'),
    map('each', { over: 'input', as: 'x', node: call('item', 'x'), fanoutConcurrency: 2, maxItems: 9 }),
    agent('child', { definition: 'writer', input: 'child' }),
    call('last', 'steps.child.output'),
  ])
  await runtime.runs.publish(organizationId, workflow({ slug: 'flow', ceilings: DEFAULT_CEILINGS, root }), OWNER)
  const request = { organizationId, definition: 'flow', input: ['a', 'b'], startedBy: OWNER, source: 'api' } as const
  await runtime.runs.start(request)
}
for (;;) {
  const { items } = await runtime.runs.list(organizationId, { definition: 'flow', limit: 1 })
  const [run] = items
  if (run !== undefined && run.endedAt !== null) {
    process.stdout.write(`${JSON.stringify({ run: run.status, reason: run.reason })}\n`)
    break
  }
  const { promise: tick, resolve } = Promise.withResolvers<void>()
  setTimeout(resolve, 20)
  await tick
}
await runtime.stop(1_000)
await database.close()
