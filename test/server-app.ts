import { z } from 'zod'
import type { ConnectionProvider } from '../src/connections/provider.ts'
import type { VaultOptions } from '../src/connections/vault/key-provider.ts'
import { type Core, createCore } from '../src/core.ts'
import { aiSdkFramework } from '../src/frameworks/ai-sdk/index.ts'
import type { RuleDraft } from '../src/policy/rule.ts'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import type { RunRow } from '../src/runs/run-store.ts'
import { createRuntime, type Runtime } from '../src/runtime.ts'
import { type App, createApp, type Hosting } from '../src/server/app.ts'
import { type BailiffConfig, defineConfig } from '../src/server/config.ts'
import { checkRules } from '../src/server/deployment.ts'
import type { Metrics } from '../src/server/metrics/metrics.ts'
import type { Readiness } from '../src/server/readiness.ts'
import type { Database } from '../src/storage/database.ts'
import { identityStore, type IdentityStore, type KeyKind } from '../src/storage/identity-store.ts'
import { manualEngine, type ManualEngine, scriptedModel } from '../src/testing/index.ts'
import { internalTool } from '../src/tools/declarations.ts'
import type { Actor } from '../src/tools/invocation.ts'
import { ok } from '../src/tools/models.ts'

export const MODEL = 'scripted/notes'

/** A note for each text of the input, all in one turn; every note is held for a person. */
export interface NotesInput {
  readonly notes: readonly string[]
}

export interface RequestOptions {
  readonly as?: string
  readonly method?: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface ServerApp {
  readonly app: App
  readonly core: Core
  readonly runtime: Runtime
  readonly engine: ManualEngine
  readonly identities: IdentityStore
  readonly organizationId: string
  /** Secrets by kind. */
  readonly keys: Readonly<Record<KeyKind, string>>
  readonly keyIds: Readonly<Record<KeyKind, string>>
  /** An admin key of another organization on the same database. */
  readonly stranger: string
  /** Ends live streams. */
  readonly closing: AbortController
  /** What the handler did. */
  readonly written: readonly string[]
  request(path: string, options?: RequestOptions): Promise<Response>
  // The shape of an answer is the promise of the test that reads it.
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
  json<T = Record<string, unknown>>(
    path: string,
    options?: RequestOptions,
  ): Promise<{ readonly status: number; readonly body: T }>
  /** A run of the definition, started by the platform unless somebody else is named. */
  startRun(input: NotesInput, startedBy?: Actor): Promise<RunRow>
}

const PLATFORM: Actor = { kind: 'system', id: 'test', name: 'test' }
const HELD: RuleDraft = {
  name: 'notes need a person',
  tools: ['notes.write'],
  when: null,
  effect: 'require_approval',
  mode: 'enforce',
}

/** The same tools and model as a deployment's config; two notes wait after its first start. */
export function notesConfig(options: { readonly closed?: string[]; readonly parts?: object } = {}): BailiffConfig {
  return defineConfig({
    setup: async () => ({
      tools: notesTools([]),
      rules: [HELD],
      definitions: [DEFINITION],
      models: { [MODEL]: notesModel() },
      defaultModel: MODEL,
      firstRun: { definition: DEFINITION.slug, input: { notes: ['one', 'two'] } },
      close: async () => void options.closed?.push('config'),
      ...options.parts,
    }),
  })
}

/** The whole HTTP surface on a database, without a socket and without time: `engine.settle()` lets runs go on. */
export async function serverApp(
  database: Database,
  options: {
    readonly hosting?: Partial<Hosting>
    readonly now?: () => Date
    readonly providers?: readonly ConnectionProvider[]
    readonly vault?: VaultOptions
    readonly metrics?: Metrics
    readonly metricsToken?: string
    readonly readiness?: (runtime: Runtime) => Readiness
  } = {},
): Promise<ServerApp> {
  const written: string[] = []
  const core = await createCore({
    database,
    tools: notesTools(written),
    ...(options.now === undefined ? {} : { now: options.now }),
    ...(options.providers === undefined ? {} : { providers: options.providers }),
    ...(options.vault === undefined ? {} : { vault: options.vault }),
    ...(options.metrics === undefined ? {} : { observers: [options.metrics.observer] }),
  })
  const { id: organizationId } = await core.stores.organizations.ensure({
    id: core.newId(),
    slug: 'acme',
    name: 'Acme',
  })
  const { id: otherId } = await core.stores.organizations.ensure({ id: core.newId(), slug: 'other', name: 'Other' })
  await core.stores.rules.sync({ organizationId, by: PLATFORM, rules: checkRules(core, [HELD]) })
  const engine = manualEngine()
  const runtime = createRuntime(core, {
    frameworks: [aiSdkFramework({ resolveModel: notesModel })],
    engine,
    defaultModel: MODEL,
  })
  await runtime.start()
  for (const organization of [organizationId, otherId]) await runtime.runs.publish(organization, DEFINITION, PLATFORM)
  const identities = identityStore(database)
  const [run, approve, admin] = await Promise.all(
    (['run', 'approve', 'admin'] as const).map((kind) =>
      identities.createApiKey({ organizationId, kind, name: `${kind} key` }),
    ),
  )
  const stranger = await identities.createApiKey({ organizationId: otherId, kind: 'admin', name: 'stranger' })
  if (run === undefined || approve === undefined || admin === undefined) throw new Error('a key is missing')
  const closing = new AbortController()
  const knows = (tool: string): boolean => core.registry.get(tool) !== undefined
  const rendered = options.metrics?.attach({ database, engine: runtime.health, knows, now: core.now })
  const page = rendered === undefined ? undefined : { ...rendered, token: options.metricsToken ?? null, organizationId }
  const app = createApp({
    core,
    runs: runtime.runs,
    lanes: runtime.lanes,
    identities,
    closing: closing.signal,
    ...(options.readiness === undefined ? {} : { readiness: options.readiness(runtime) }),
    ...(page === undefined ? {} : { metrics: page }),
    about: { model: MODEL, scripted: true, database: database.dialect },
    hosting: {
      loopback: true,
      trustProxy: false,
      publicUrl: 'http://127.0.0.1:4400',
      cookieName: 'session',
      ...options.hosting,
    },
  })
  const request = async (path: string, { as, method = 'GET', body, headers }: RequestOptions = {}): Promise<Response> =>
    app.request(path, {
      method,
      headers: {
        ...(as === undefined ? {} : { authorization: `Bearer ${as}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  return {
    app,
    core,
    runtime,
    engine,
    identities,
    organizationId,
    keys: { run: run.secret, approve: approve.secret, admin: admin.secret },
    keyIds: { run: run.id, approve: approve.id, admin: admin.id },
    stranger: stranger.secret,
    closing,
    written,
    request,
    // oxlint-disable-next-line typescript/no-unnecessary-type-parameters
    async json<T>(path: string, given?: RequestOptions) {
      const response = await request(path, given)
      return { status: response.status, body: (await response.json()) as T }
    },
    startRun: ({ notes }, startedBy = PLATFORM) =>
      runtime.runs.start({ organizationId, definition: DEFINITION.slug, input: { notes }, startedBy, source: 'api' }),
  }
}

export const DEFINITION = {
  slug: 'notes',
  instructions: 'Write the notes.',
  tools: ['notes.list', 'notes.write'],
  model: null,
  ceilings: DEFAULT_CEILINGS,
}

function notesTools(written: string[]) {
  return [
    internalTool({
      name: 'notes.list',
      description: 'List the notes.',
      input: z.object({}),
      output: z.array(z.string()),
      sideEffects: 'read',
      handler: async () => ok([...written]),
    }),
    internalTool({
      name: 'notes.write',
      description: 'Write a note.',
      input: z.object({ text: z.string() }),
      output: z.object({ count: z.int() }),
      sideEffects: 'write',
      repeatable: false,
      onUnknown: 'ask',
      handler: {
        async execute(_invocation, { text }) {
          written.push(text)
          return ok({ count: written.length })
        },
        preview: async (_invocation, { text }) => `Write the note ${text}`,
      },
    }),
  ]
}

function notesModel() {
  return scriptedModel({
    name: MODEL,
    next: ({ input, turns }) => {
      const { notes } = JSON.parse(input) as NotesInput
      if (turns.length > 0 || notes.length === 0) return { text: 'Done.' }
      return { text: 'Writing.', calls: notes.map((text) => ({ tool: 'notes.write', args: { text } })) }
    },
  })
}
