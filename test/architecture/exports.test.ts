import { readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { COMPUTED, packageOf } from './imports.ts'
import { readSources, ROOT } from './source-files.ts'

interface Package {
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly files: readonly string[]
  readonly dependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>
}

const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Package
const sources = new Map(readSources(['src']).map((file) => [file.path, file]))

/** Source file of each public entry, by subpath. */
const ENTRIES = new Map(
  Object.entries(manifest.exports).flatMap(([subpath, target]) =>
    typeof target === 'string' ? [] : [[subpath, posix.normalize(target['bailiff:source'] ?? '')] as const],
  ),
)

/** What each entry offers at run time. A name that comes or goes is a decision about the public surface: write it here. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  '.': [
    'ApprovalRequired',
    'CancelRequested',
    'ClaimInFlight',
    'ConflictError',
    'ConnectionError',
    'DEFAULT_CEILINGS',
    'ERROR_CODES',
    'NotFoundError',
    'OutcomeUnknownError',
    'RegistryError',
    'RetryableUpstreamError',
    'UpstreamUnavailableError',
    'ValidationError',
    'createBailiff',
    'databaseUpkeep',
    'deleteOrganization',
    'erasureStore',
    'exportOrganization',
    'internalTool',
    'modelToolName',
    'ok',
    'vendorTool',
  ],
  './ai-sdk': ['aiSdkFramework', 'declareTools', 'governed', 'modelProvider', 'resolveModel'],
  './inngest': ['PROVIDER_JOB_COMPLETED', 'RUN_WAKE', 'RUN_WAKE_LATER', 'inngestEngine', 'jobEvent'],
  './outgoing': ['OutgoingFailure', 'outgoingGuard'],
  './opentelemetry': ['openTelemetry', 'spanIds'],
  './pg': ['DatabaseUnavailable', 'pgDatabase'],
  './pglite': ['DataFolderInUse', 'pgliteDatabase'],
  './server': [
    'ConfigError',
    'ListenError',
    'PlatformError',
    'SettingsError',
    'VaultKeyMissing',
    'createApp',
    'defineConfig',
    'findConfig',
    'identityStore',
    'loadConfig',
    'readCsvInput',
    'readSettings',
    'startPlatform',
  ],
  './sentry': ['sentryReporter'],
  './testing': ['manualEngine', 'scriptedModel', 'scriptedTurns', 'testBailiff'],
  './testing/suites': ['engineSuite', 'history', 'memoryScene', 'playHistory', 'sessionSuite'],
  './workflows': [
    'WORKFLOW_LIMITS',
    'agent',
    'branch',
    'callShapeOf',
    'end',
    'expr',
    'map',
    'optionalExpr',
    'parallel',
    'sequence',
    'tool',
    'validateWorkflow',
    'waitFor',
    'waitForProviderJob',
    'waitForSignal',
    'waitUntil',
    'workflow',
  ],
  './handlers/crm': ['crmTools', 'scopedCompanies', 'scopedLists', 'scopedPeople'],
  './handlers/email': ['emailProvider', 'emailTools', 'nylasTransport', 'recipientIsNew', 'smtpTransport'],
  './handlers/research': [
    'VendorError',
    'discoverPeopleTool',
    'enrichCompanyTool',
    'exaPeople',
    'findContactTool',
    'hunterClient',
    'parallelTask',
    'scrapeTool',
    'searchCompanyTool',
    'suppressionsInMemory',
    'vendorPriceBook',
  ],
  './handlers/fullenrich': ['fullEnrich'],
  './handlers/memory': ['memoryTools', 'scopedMemories'],
  './handlers/intelligence': ['intelligenceTools'],
}

/** Optional peers an entry loads as soon as it is imported: what it is about. Everything else loads when it is used. */
const PEERS: Readonly<Record<string, readonly string[]>> = {
  '.': [],
  './ai-sdk': ['ai'],
  './inngest': ['inngest'],
  './outgoing': [],
  './opentelemetry': ['@opentelemetry/api'],
  './pg': ['pg'],
  './pglite': ['@electric-sql/pglite'],
  // Managed runs need the framework and the engine; the database driver is the one that the settings name.
  './server': ['ai', 'pg-boss'],
  './sentry': [],
  './testing': [],
  './testing/suites': ['fast-check'],
  './workflows': [],
  './handlers/crm': [],
  './handlers/email': [],
  './handlers/research': [],
  './handlers/fullenrich': [],
  './handlers/memory': [],
  './handlers/intelligence': [],
}

describe('the public surface', () => {
  test('is what is written here, entry by entry', async () => {
    const offered = [...ENTRIES].map(async ([subpath, path]) => {
      const entry = (await import(pathToFileURL(join(ROOT, path)).href)) as object
      return [subpath, Object.keys(entry).toSorted()]
    })
    expect(Object.fromEntries(await Promise.all(offered))).toEqual(NAMES)
  })

  test('has a type, a build and a source for every entry', () => {
    for (const [subpath, path] of ENTRIES) {
      const built = `./${path.replace(/^src\//, 'dist/').replace(/\.ts$/, '')}`
      expect(manifest.exports[subpath]).toEqual({
        'bailiff:source': `./${path}`,
        types: `${built}.d.ts`,
        default: `${built}.js`,
      })
      expect(sources.has(path)).toBe(true)
    }
    expect(ENTRIES.size).toBe(Object.keys(NAMES).length)
  })
})

describe('peers', () => {
  test.each(Object.entries(PEERS))('%s loads no optional peer but its own', (subpath, allowed) => {
    const { packages, files } = reachedFrom(ENTRIES.get(subpath) ?? '')
    expect(files.size).toBeGreaterThan(0)
    const peers = [...packages].filter((name) => Object.hasOwn(manifest.peerDependencies, name))
    expect(peers.toSorted()).toEqual(allowed)
    const unknown = [...packages].filter(
      (name) => !name.startsWith('node:') && !Object.hasOwn(manifest.dependencies, name) && !peers.includes(name),
    )
    expect(unknown).toEqual([])
  })

  test('the root entry reaches neither server nor framework, and no driver, in what it loads and in its types', () => {
    const { packages, files } = reachedFrom('src/index.ts', ['value', 'type'])
    expect(files.has('src/tools/default-invoker.ts')).toBe(true)
    const foreign = ['ai', 'pg', 'pg-boss', '@electric-sql/pglite', 'nodemailer', 'hono', 'pino', 'commander']
    expect(foreign.filter((name) => packages.has(name))).toEqual([])
    expect([...files].filter((path) => /^src\/(server|cli|testing|frameworks|engines|handlers)\//.test(path))).toEqual(
      [],
    )
  })

  test('every peer is optional, and what the entries and the command reach is declared, no more and no less', () => {
    const optional = Object.entries(manifest.peerDependenciesMeta).filter(([, meta]) => meta.optional)
    expect(optional.map(([name]) => name).toSorted()).toEqual(Object.keys(manifest.peerDependencies).toSorted())
    const everything = [...ENTRIES.values(), 'src/cli/main.ts'].map((entry) =>
      reachedFrom(entry, ['value', 'type', 'dynamic']),
    )
    const reached = new Set(everything.flatMap(({ packages }) => [...packages]))
    const packages = [...reached].filter((name) => !name.startsWith('node:'))
    const declared = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)]
    expect(packages.toSorted()).toEqual(declared.toSorted())
  })
})

/** Files and packages that come in with an entry, by static import. */
function reachedFrom(entry: string, kinds: readonly string[] = ['value']) {
  const files = new Set<string>([entry])
  const packages = new Set<string>()
  for (const path of files) {
    for (const { specifier, kind } of sources.get(path)?.imports ?? []) {
      if (!kinds.includes(kind)) continue
      if (specifier === COMPUTED) continue
      const name = packageOf(specifier)
      if (name !== null) packages.add(name)
      else files.add(posix.join(posix.dirname(path), specifier))
    }
  }
  return { files, packages }
}
