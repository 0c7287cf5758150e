import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { ClosingLine } from './test/setup/closing-line.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

const everywhere = ['src', 'test', 'simulators', 'examples', 'scripts', 'bench']
const files = (kind: string): string[] => everywhere.map((folder) => `${folder}/**/*${kind}.test.ts`)

// `*.db.test.ts` run on both databases; the other two kinds are about one of them.
const embeddedTests = [...files('.db'), ...files('.pglite')]
const serverTests = [...files('.db'), ...files('.postgres')]

export default defineConfig({
  resolve: {
    // Tests and examples use the public names; longest first, since an alias also matches what starts with it.
    alias: [
      { find: /^bailiff\/ai-sdk$/, replacement: here('./src/frameworks/ai-sdk/index.ts') },
      { find: /^bailiff\/handlers\/crm$/, replacement: here('./src/handlers/crm/index.ts') },
      { find: /^bailiff\/handlers\/email$/, replacement: here('./src/handlers/email/index.ts') },
      { find: /^bailiff\/pg$/, replacement: here('./src/storage/pg/index.ts') },
      { find: /^bailiff\/pglite$/, replacement: here('./src/storage/pglite/index.ts') },
      { find: /^bailiff\/server$/, replacement: here('./src/server/index.ts') },
      { find: /^bailiff\/testing\/suites$/, replacement: here('./src/testing/suites.ts') },
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
        test: { name: 'unit', include: files(''), exclude: [...embeddedTests, ...serverTests] },
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
    ],
  },
})
