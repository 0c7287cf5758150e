/*
 * One process of a deployment on PostgreSQL, for tests that ask it to leave. It takes its orders as JSON in argv, writes a
 * line for each thing that happens, and reads what it is told from standard input.
 */
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { createCore } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { DEFAULT_CEILINGS } from '../../src/runs/definition.ts'
import { createRuntime } from '../../src/runtime.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { internalTool } from '../../src/tools/declarations.ts'
import { ok } from '../../src/tools/models.ts'

export interface Orders {
  readonly url: string
  /** Waits for `go` on standard input before the model's first turn is answered, or before the effect is answered. */
  readonly holdsAt: 'turn' | 'effect' | 'nothing'
  readonly graceMs: number
  /** Begins a run. */
  readonly starts: boolean
}

const orders = JSON.parse(process.argv[2] ?? '') as Orders
const say = (line: Record<string, unknown>): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

const { promise: told, resolve: go } = Promise.withResolvers<void>()
createInterface({ input: process.stdin }).once('line', () => go())

const database = await pgDatabase({ connectionString: orders.url })
const core = await createCore({
  database,
  tools: [
    internalTool({
      name: 'notes.write',
      description: 'Write a note.',
      input: z.object({ text: z.string() }),
      output: z.object({ by: z.int() }),
      sideEffects: 'write',
      repeatable: false,
      onUnknown: 'ask',
      handler: async () => {
        say({ effect: 'begun' })
        if (orders.holdsAt === 'effect') await told
        say({ effect: 'done' })
        return ok({ by: process.pid })
      },
    }),
  ],
  observers: [
    {
      observe(event) {
        if (event.kind === 'segment_ended') say({ segment: event.ending })
        if (event.kind === 'run_ended') say({ run: event.status })
      },
    },
  ],
})
const { id: organizationId } = await core.stores.organizations.ensure({ id: core.newId(), slug: 'acme', name: 'Acme' })
const model = scriptedModel({
  name: 'scripted/notes',
  next: ({ turns }) =>
    turns.length === 0 ? { calls: [{ tool: 'notes.write', args: { text: 'hi' } }] } : { text: 'Done.' },
})
const framework = aiSdkFramework({
  maxRetries: 0,
  resolveModel: async () => {
    if (orders.holdsAt !== 'turn') return model
    say({ turn: 'asked' })
    await told
    return model
  },
})
const runtime = createRuntime(core, {
  frameworks: [framework],
  engine: embeddedEngine({
    database: { dialect: 'postgres', connectionString: orders.url },
    logger: core.logger,
    sweepMs: 200,
  }),
  defaultModel: 'scripted/notes',
  // So long that no run of these tests is ever taken for dead.
  staleS: 3_600,
})
const actor = { kind: 'system', id: 'test', name: 'test' } as const
await runtime.runs.publish(
  organizationId,
  { slug: 'notes', instructions: 'Write.', tools: ['notes.write'], model: null, ceilings: DEFAULT_CEILINGS },
  actor,
)
await runtime.start()
if (orders.starts) {
  const run = await runtime.runs.start({
    organizationId,
    definition: 'notes',
    input: 'go',
    startedBy: actor,
    source: 'api',
  })
  say({ started: run.id })
}
say({ ready: true })

process.once('SIGTERM', () => {
  say({ leaving: true })
  void runtime
    .stop(orders.graceMs)
    .then(() => database.close())
    .then(() => {
      say({ left: true })
      process.exit(0)
    })
})
