/*
 * One server of a deployment that is killed at random. Its orders come as JSON in argv, then one a line on standard
 * input; it writes a line for what its parent has to know, and ends when its input does: it never outlives its parent.
 */
import { createInterface } from 'node:readline'
import { createCore } from '../../src/core.ts'
import { embeddedEngine } from '../../src/engines/embedded/engine.ts'
import { aiSdkFramework } from '../../src/frameworks/ai-sdk/index.ts'
import { createRuntime } from '../../src/runtime.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import { scriptedModel } from '../../src/testing/scripted-model.ts'
import { CHAOS_RULES, chaosParts, chaosScript, DECIDER } from './chaos-deployment.ts'

export interface ChaosOrders {
  readonly url: string
}

export type ChaosCommand =
  | { readonly do: 'wake'; readonly runId: string }
  | {
      readonly do: 'approve'
      readonly organizationId: string
      readonly approvalId: string
      readonly argumentsHash: string
      readonly outcome: 'arrived' | 'send_again' | null
    }

export type ChaosLine =
  | { readonly said: 'ready' }
  /** The process took a run. */
  | { readonly said: 'segment'; readonly runId: string }
  | { readonly said: 'lost'; readonly runId: string }
  | { readonly said: 'fault'; readonly message: string }

const say = (line: ChaosLine): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
const fault = (message: string, details?: object): void =>
  say({
    said: 'fault',
    message: `${message} ${JSON.stringify(details, (_key, value: unknown) => (value instanceof Error ? value.stack : value))}`,
  })

const { url } = JSON.parse(process.argv[2] ?? '') as ChaosOrders
const database = await pgDatabase({ connectionString: url, onError: (error) => fault('a connection broke', { error }) })
const core = await createCore({
  database,
  ...chaosParts(database),
  logger: { info: () => undefined, warn: fault, error: fault },
  observers: [
    {
      observe(event) {
        if (event.kind === 'segment_started') say({ said: 'segment', runId: event.runId })
        if (event.kind === 'segment_ended' && event.ending === 'lost') say({ said: 'lost', runId: event.runId })
      },
    },
  ],
})
const engine = embeddedEngine({
  database: { dialect: 'postgres', connectionString: url },
  logger: core.logger,
  sweepMs: 500,
})
const model = scriptedModel({ name: 'scripted/chaos', next: chaosScript })
const runtime = createRuntime(core, {
  frameworks: [aiSdkFramework({ resolveModel: () => model, maxRetries: 0 })],
  engine,
  defaultModel: 'scripted/chaos',
  ...CHAOS_RULES,
})
await runtime.start()
say({ said: 'ready' })

async function obey(command: ChaosCommand): Promise<void> {
  if (command.do === 'wake') return engine.wake(command.runId)
  const { organizationId, approvalId, argumentsHash, outcome } = command
  // A question that somebody else answered meanwhile, or that went stale with its run, is no fault.
  await core.approvals.approve({
    organizationId,
    approvalId,
    argumentsHash,
    decider: DECIDER,
    note: null,
    ...(outcome === null ? {} : { outcome }),
  })
}

for await (const line of createInterface({ input: process.stdin })) {
  void obey(JSON.parse(line) as ChaosCommand).catch((error: unknown) => fault('a command failed', { error }))
}
await runtime.stop(5_000)
await database.close()
