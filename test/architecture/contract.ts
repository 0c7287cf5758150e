/** What a part may import of another: its types alone, or what runs too. */
type Reach = 'type' | 'value'

export interface PartRule {
  /** Paths from the root of the project, a folder or one file; the longest that fits decides. Its own part is always in. */
  readonly imports: Readonly<Record<string, Reach>>
  /** Bare packages. `node:*` is every built-in module. */
  readonly packages: readonly string[]
}

const EVERY_PART_BELOW: Readonly<Record<string, Reach>> = {
  'src/approvals': 'value',
  'src/connections': 'value',
  'src/decision': 'value',
  'src/observing': 'value',
  'src/policy': 'value',
  'src/provider-jobs': 'value',
  'src/runs': 'value',
  'src/spans': 'value',
  'src/storage': 'value',
  'src/tools': 'value',
  'src/usage': 'value',
}

/** Loaded where traces are asked for; optional peers all of them. */
const TRACING: readonly string[] = [
  '@opentelemetry/api',
  '@opentelemetry/context-async-hooks',
  '@opentelemetry/exporter-trace-otlp-http',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace',
]

/**
 * The import contract: who may import what. A folder that is not named here may not exist, and nothing that is not
 * written here may be imported; there is no list of exceptions.
 */
export const IMPORT_CONTRACT: Readonly<Record<string, PartRule>> = {
  // Pure decisions over values that were read once.
  'src/decision': { imports: { 'src/tools': 'type' }, packages: [] },
  // The contract of a tool and the one path of a call; what it needs of the world it declares as ports.
  'src/tools': {
    imports: { 'src/decision': 'value' },
    packages: ['ajv', 'ajv-formats', 'canonicalize', 're2js', 'zod', 'node:crypto', 'node:timers', 'node:util'],
  },
  'src/policy': { imports: { 'src/decision': 'value', 'src/tools': 'value' }, packages: ['@marcbachmann/cel-js'] },
  'src/approvals': {
    imports: { 'src/decision': 'value', 'src/tools': 'value', 'src/runs': 'type' },
    packages: [],
  },
  'src/usage': { imports: { 'src/runs': 'type', 'src/tools': 'type' }, packages: [] },
  // Work that a vendor finishes later: one row, one transition, one charge.
  'src/provider-jobs': { imports: { 'src/runs': 'type', 'src/tools': 'value' }, packages: ['node:crypto'] },
  // What may be known of calls and runs outside of them; never an argument or an answer.
  'src/observing': {
    imports: { 'src/approvals': 'type', 'src/decision': 'type', 'src/runs': 'value', 'src/tools': 'type' },
    packages: [],
  },
  // Through the API of OpenTelemetry alone; the SDK is the deployment's.
  'src/opentelemetry': { imports: { 'src/observing': 'type' }, packages: ['@opentelemetry/api', 'node:crypto'] },
  'src/spans': { imports: { 'src/tools': 'type' }, packages: ['node:async_hooks'] },
  'src/connections': {
    imports: { 'src/tools': 'value' },
    packages: ['ipaddr.js', 'openid-client', 'undici', 'zod', 'node:crypto', 'node:dns'],
  },
  'src/runs': {
    imports: {
      'src/provider-jobs': 'value',
      'src/decision': 'value',
      'src/policy': 'value',
      'src/tools': 'value',
      'src/usage': 'type',
    },
    packages: ['zod'],
  },
  // Translates one framework's shapes; holds no rules and reaches no storage.
  'src/frameworks/ai-sdk': {
    imports: { 'src/runs': 'value', 'src/tools': 'value', 'src/approvals': 'type', 'src/bailiff.ts': 'type' },
    packages: ['@ai-sdk/anthropic', '@ai-sdk/google', '@ai-sdk/openai', '@ai-sdk/openai-compatible', 'ai', 'zod'],
  },
  'src/engines/embedded': { imports: { 'src/runs': 'value', 'src/tools': 'value' }, packages: ['pg-boss', 'uuid'] },
  'src/engines/inngest': { imports: { 'src/runs': 'value', 'src/tools': 'value' }, packages: ['inngest'] },
  // The only place with vendor SDKs. Organization data through the scoped handle, which somebody else opens.
  'src/handlers': {
    imports: {
      'src/connections/outgoing.ts': 'value',
      'src/connections/provider.ts': 'type',
      'src/provider-jobs': 'value',
      'src/tools': 'value',
      'src/usage/vendor-prices.ts': 'value',
      'src/spans': 'value',
      'src/storage/scoped-db.ts': 'type',
    },
    packages: ['exa-js', 'firecrawl', 'kysely', 'nodemailer', 'nylas', 'parallel-web', 'uuid', 'zod', 'node:*'],
  },
  // Where faults go that need an operator.
  'src/reporters': { imports: { 'src/tools': 'type' }, packages: ['@sentry/node'] },
  // All SQL, and the drivers in a folder each, so that a deployment loads the one it uses.
  'src/storage': {
    imports: {
      'src/approvals': 'type',
      'src/connections': 'value',
      'src/decision': 'value',
      'src/handlers/intelligence': 'type',
      'src/policy': 'type',
      'src/provider-jobs': 'value',
      'src/runs': 'value',
      'src/spans': 'type',
      'src/tools': 'value',
    },
    packages: ['kysely', 'uuid', 'zod', 'node:*'],
  },
  'src/storage/pg': { imports: { 'src/storage': 'value' }, packages: ['pg', 'node:*'] },
  'src/storage/pglite': { imports: { 'src/storage': 'value' }, packages: ['@electric-sql/pglite', 'zod', 'node:*'] },
  // The parts, wired: no driver, no framework, no server.
  'src/core.ts': { imports: EVERY_PART_BELOW, packages: ['uuid'] },
  'src/runtime.ts': { imports: { ...EVERY_PART_BELOW, 'src/core.ts': 'type' }, packages: [] },
  'src/managed.ts': {
    imports: { ...EVERY_PART_BELOW, 'src/core.ts': 'type', 'src/runtime.ts': 'value' },
    packages: [],
  },
  'src/bailiff.ts': {
    imports: { ...EVERY_PART_BELOW, 'src/core.ts': 'value', 'src/managed.ts': 'value' },
    packages: [],
  },
  'src/index.ts': {
    imports: { ...EVERY_PART_BELOW, 'src/bailiff.ts': 'value', 'src/managed.ts': 'type' },
    packages: [],
  },
  'src/server': {
    imports: {
      ...EVERY_PART_BELOW,
      'src/bailiff.ts': 'value',
      'src/core.ts': 'value',
      'src/runtime.ts': 'value',
      'src/engines': 'value',
      'src/frameworks': 'value',
      'src/handlers': 'value',
      'src/opentelemetry': 'value',
      'src/reporters': 'value',
    },
    packages: [
      '@hono/node-server',
      '@hono/zod-openapi',
      'csv-parse',
      'hono',
      'pino',
      'prom-client',
      'zod',
      ...TRACING,
      'node:*',
    ],
  },
  'src/cli': {
    imports: {
      'src/connections': 'value',
      'src/core.ts': 'value',
      'src/runs': 'type',
      'src/server': 'value',
      'src/storage': 'value',
      'src/tools': 'value',
      'src/usage': 'type',
    },
    packages: ['commander', 'zod', 'node:*'],
  },
  // Public aids for the tests of whoever uses Bailiff; nothing in src/ imports them.
  'src/testing': {
    imports: {
      ...EVERY_PART_BELOW,
      'src/bailiff.ts': 'value',
      'src/core.ts': 'value',
      'src/runtime.ts': 'value',
      'src/frameworks': 'type',
    },
    packages: ['fast-check', 'zod', 'node:*'],
  },
  simulators: {
    imports: { 'src/testing': 'value', 'src/tools': 'type' },
    packages: ['mailparser', 'smtp-server', 'zod', 'node:*'],
  },
  // Outside code: what an example needs, the package's public names must offer.
  examples: { imports: { simulators: 'value' }, packages: ['ai', 'bailiff', 'zod', 'node:*'] },
}

/** Not part of the package: may import anything, and obeys the rules of style. */
export const FREE_FOLDERS: readonly string[] = ['bench', 'scripts', 'test']

/** The part a file belongs to: the longest path that contains it. */
export function partOf(path: string): string | null {
  return longestOf(Object.keys(IMPORT_CONTRACT), path)
}

export function reachOf(rule: PartRule, target: string): Reach | null {
  const found = longestOf(Object.keys(rule.imports), target)
  return found === null ? null : (rule.imports[found] ?? null)
}

function longestOf(paths: readonly string[], path: string): string | null {
  const containing = paths.filter((candidate) => path === candidate || path.startsWith(`${candidate}/`))
  return containing.toSorted((a, b) => b.length - a.length)[0] ?? null
}
