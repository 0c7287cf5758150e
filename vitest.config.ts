import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { ClosingLine } from './test/setup/closing-line.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const everywhere = ['src', 'test', 'simulators', 'examples', 'scripts', 'bench']
const files = (kind: string): string[] => everywhere.map((folder) => `${folder}/**/*${kind}.test.ts`)

// `*.db.test.ts` run on both databases; the other kinds are about one of them.
const embeddedTests = [...files('.db'), ...files('.pglite')]
const serverTests = [...files('.db'), ...files('.postgres')]

/**
 * Suites that fit into one organization, run once more as a role that sees only that one: a statement that names another
 * organization is refused or finds nothing. Not here are:
 * - `scoped-*`, `row-level-security`, `handlers/`, `connection-store`: two or more organizations are their subject;
 * - `schema`, `migrate`, `database`, `type-parsers`: they need the owner, or are about no organization's rows;
 * - `identity-store`, `server/`, `cli/`: sign-in reads credentials before it knows an organization, and no member may;
 * - `limit-races`, `races`: the statements of `limits` and `invoker` again, for what two pools do to each other;
 * - `upgrades`, `crash`, the examples: they bring an organization of their own, recorded or made by a child process.
 */
const memberTests = [
  'test/approvals',
  'test/arguments',
  'test/ceilings',
  'test/connections',
  'test/four-checks',
  'test/framework-boundary',
  'test/governed-run',
  'test/invoker',
  'test/lane-control',
  'test/ledger-histories',
  'test/limit-model',
  'test/limits',
  'test/metering',
  'test/no-wedged-run',
  'test/policy',
  'test/replay',
  'test/round-trips',
  'test/spend',
  'test/taint',
  'test/vault',
  'test/workflow-children',
  'test/workflow-spend',
  'test/workflow-waits',
  'test/workflows',
  'src/frameworks/ai-sdk/own-loop',
  'src/storage/call-ledger',
].map((suite) => `${suite}.db.test.ts`)

export default defineConfig({
  resolve: {
    // Tests and examples use the public names; longest first, since an alias also matches what starts with it.
    alias: [
      { find: /^bailiff\/ai-sdk$/, replacement: here('./src/frameworks/ai-sdk/index.ts') },
      { find: /^bailiff\/handlers\/crm$/, replacement: here('./src/handlers/crm/index.ts') },
      { find: /^bailiff\/handlers\/email$/, replacement: here('./src/handlers/email/index.ts') },
      { find: /^bailiff\/handlers\/fullenrich$/, replacement: here('./src/handlers/fullenrich/index.ts') },
      { find: /^bailiff\/handlers\/intelligence$/, replacement: here('./src/handlers/intelligence/index.ts') },
      { find: /^bailiff\/handlers\/memory$/, replacement: here('./src/handlers/memory/index.ts') },
      { find: /^bailiff\/handlers\/research$/, replacement: here('./src/handlers/research/index.ts') },
      { find: /^bailiff\/opentelemetry$/, replacement: here('./src/opentelemetry/index.ts') },
      { find: /^bailiff\/inngest$/, replacement: here('./src/engines/inngest/index.ts') },
      { find: /^bailiff\/outgoing$/, replacement: here('./src/connections/outgoing.ts') },
      { find: /^bailiff\/pg$/, replacement: here('./src/storage/pg/index.ts') },
      { find: /^bailiff\/pglite$/, replacement: here('./src/storage/pglite/index.ts') },
      { find: /^bailiff\/sentry$/, replacement: here('./src/reporters/index.ts') },
      { find: /^bailiff\/server$/, replacement: here('./src/server/index.ts') },
      { find: /^bailiff\/testing\/suites$/, replacement: here('./src/testing/suites.ts') },
      { find: /^bailiff\/workflows$/, replacement: here('./src/runs/workflow/index.ts') },
      { find: /^bailiff\/testing$/, replacement: here('./src/testing/index.ts') },
      { find: /^bailiff$/, replacement: here('./src/index.ts') },
    ],
  },
  test: {
    // Half a gigabyte for each embedded database, two cores on the smallest machine that must run this.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    reporters: ['default', new ClosingLine()],
    projects: [
      {
        extends: true,
        test: { name: 'unit', include: files(''), exclude: [...embeddedTests, ...serverTests, ...files('.rls')] },
      },
      {
        extends: true,
        test: {
          name: 'types',
          include: [],
          // The sources themselves are checked by `npm run typecheck`.
          typecheck: {
            enabled: true,
            only: true,
            ignoreSourceErrors: true,
            spawnTimeout: 60_000,
            include: everywhere.map((folder) => `${folder}/**/*.test-d.ts`),
          },
        },
      },
      {
        extends: true,
        test: { name: 'pglite', include: embeddedTests, globalSetup: './test/setup/pglite.ts' },
      },
      {
        extends: true,
        test: { name: 'postgres', include: serverTests, globalSetup: './test/setup/postgres.ts' },
      },
      {
        extends: true,
        test: {
          name: 'rls',
          include: [...memberTests, ...files('.rls')],
          globalSetup: './test/setup/postgres.ts',
          provide: { role: 'member' },
        },
      },
    ],
  },
})
