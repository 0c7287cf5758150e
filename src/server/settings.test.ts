import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readSettings, type Environment, SettingsError } from './settings.ts'

const VAULT_KEY = 'MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY='

function problemsOf(environment: Environment): Record<string, string> {
  try {
    readSettings(environment)
    return {}
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return Object.fromEntries(error.problems.map(({ variable, message }) => [variable, message]))
  }
}

test('an empty environment takes the documented defaults', () => {
  expect(readSettings({})).toStrictEqual({
    port: 4400,
    host: '127.0.0.1',
    dataDir: resolve('.bailiff'),
    databaseUrl: null,
    databaseUrlDirect: null,
    model: null,
    modelBaseUrl: null,
    keys: { openai: null, anthropic: null, google: null, model: null },
    engine: 'embedded',
    inngest: null,
    trustProxy: false,
    publicUrl: null,
    vaultKey: null,
    vendorKeys: {
      exa: null,
      parallel: null,
      firecrawl: null,
      hunter: null,
      nylas: null,
      fullenrich: null,
      parallelWebhook: null,
    },
    outgoingAllow: [],
    sentryDsn: null,
    metrics: { on: true, token: null },
    logLevel: null,
    drainMs: 0,
    graceMs: 10_000,
    traces: false,
    warnings: [],
  })
})

test('every variable is read, and an empty one counts as absent', () => {
  const settings = readSettings({
    BAILIFF_PORT: '0',
    BAILIFF_HOST: '::1',
    BAILIFF_DATA_DIR: '/tmp/x',
    DATABASE_URL: 'postgresql://u:p@h/d',
    BAILIFF_MODEL: 'openai/gpt-5',
    BAILIFF_MODEL_BASE_URL: 'http://127.0.0.1:11434/v1',
    BAILIFF_MODEL_API_KEY: 'k',
    OPENAI_API_KEY: '',
    ANTHROPIC_API_KEY: ' a ',
    BAILIFF_ENGINE: 'embedded',
    BAILIFF_TRUST_PROXY: 'yes',
    BAILIFF_PUBLIC_URL: 'https://bailiff.acme.test/',
    BAILIFF_VAULT_KEY: VAULT_KEY,
    EXA_API_KEY: 'exa-key',
    BAILIFF_OUTGOING_ALLOW: 'mail.internal:25, 10.1.0.0/16',
    SENTRY_DSN: 'https://key@sentry.acme.test/7',
    DATABASE_URL_DIRECT: 'postgres://u:p@h:5432/d',
    BAILIFF_METRICS_TOKEN: 'sixteen-letters!',
    BAILIFF_LOG_LEVEL: 'info',
    BAILIFF_DRAIN_S: '5',
    BAILIFF_GRACE_S: '30',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318',
  })
  expect(settings).toMatchObject({
    port: 0,
    host: '::1',
    dataDir: '/tmp/x',
    databaseUrl: 'postgresql://u:p@h/d',
    model: 'openai/gpt-5',
    trustProxy: true,
    publicUrl: 'https://bailiff.acme.test',
    vaultKey: VAULT_KEY,
    keys: { openai: null, anthropic: 'a', google: null, model: 'k' },
    vendorKeys: { exa: 'exa-key', hunter: null },
    outgoingAllow: ['mail.internal:25', '10.1.0.0/16'],
    sentryDsn: 'https://key@sentry.acme.test/7',
    databaseUrlDirect: 'postgres://u:p@h:5432/d',
    metrics: { on: true, token: 'sixteen-letters!' },
    logLevel: 'info',
    drainMs: 5_000,
    graceMs: 30_000,
    traces: true,
  })
})

describe('a wrong variable is named with its remedy', () => {
  test.for([
    ['BAILIFF_PORT', '65536', 'port from 0 to 65535'],
    ['BAILIFF_PORT', '44OO', 'port from 0 to 65535'],
    ['BAILIFF_HOST', 'http://localhost', 'host name or address'],
    ['BAILIFF_MODEL', 'gpt-5', 'provider/model'],
    ['BAILIFF_MODEL_BASE_URL', 'localhost:11434', 'http(s) address'],
    ['BAILIFF_TRUST_PROXY', 'maybe', 'true or false'],
    ['BAILIFF_PUBLIC_URL', 'https://bailiff.acme.test/console', 'without a path'],
    ['BAILIFF_PUBLIC_URL', 'bailiff.acme.test', 'http(s) address'],
    ['BAILIFF_VAULT_KEY', 'c2hvcnQ=', 'openssl rand -base64 32'],
    ['BAILIFF_ENGINE', 'temporal', 'embedded or inngest'],
    ['INNGEST_BASE_URL', 'inngest.internal:8288', 'http(s) address'],
    ['INNGEST_BASE_URL', 'https://user:pass@inngest.internal', 'http(s) address'],
    ['INNGEST_DEV', 'maybe', 'development server'],
    ['BAILIFF_OUTGOING_ALLOW', 'http://mail.internal', 'host:port or ranges'],
    ['HUNTER_API_KEY', 'two words', 'key of the vendor'],
    ['SENTRY_DSN', 'sentry', 'DSN of the Sentry project'],
    ['DATABASE_URL_DIRECT', 'h:5432', 'without its pooler'],
    ['BAILIFF_METRICS', 'yes', 'on or off'],
    ['BAILIFF_METRICS_TOKEN', 'short', 'at least 16 characters'],
    ['BAILIFF_LOG_LEVEL', 'debug', 'silent, error, warn, info'],
    ['BAILIFF_DRAIN_S', '-1', 'from 0 to 300'],
    ['BAILIFF_GRACE_S', '1.5', 'whole seconds'],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', 'address of the collector'],
  ] as const)('%s=%s', ([variable, value, remedy]) => {
    expect(problemsOf({ [variable]: value })).toStrictEqual({ [variable]: expect.stringContaining(remedy) })
  })

  test('all at once', () => {
    expect(Object.keys(problemsOf({ BAILIFF_PORT: 'x', BAILIFF_MODEL: 'y', DATABASE_URL: 'z' }))).toStrictEqual([
      'BAILIFF_PORT',
      'DATABASE_URL',
      'BAILIFF_MODEL',
    ])
  })

  test('without repeating what may be secret', () => {
    const problems = problemsOf({
      DATABASE_URL: 'mysql://u:hunter2@h/d',
      BAILIFF_VAULT_KEY: 'a:hunter2',
      EXA_API_KEY: 'a hunter2',
      SENTRY_DSN: 'hunter2',
      DATABASE_URL_DIRECT: 'mysql://u:hunter2@h/d',
      BAILIFF_METRICS_TOKEN: 'a hunter2',
    })
    expect(Object.keys(problems)).toHaveLength(6)
    expect(JSON.stringify(problems)).not.toContain('hunter2')
  })
})

test('a name that is nearly a setting is warned about, a deployment’s own is not', () => {
  expect(
    readSettings({ BAILIFF_PROT: '1', BAILIFF_DEMO_COLOUR: 'red', BAILIFF_API_KEY: 'bk_x' }).warnings,
  ).toStrictEqual([expect.stringContaining('did you mean BAILIFF_PORT?')])
})

describe('metrics are served', () => {
  const served = (environment: Environment): boolean => readSettings(environment).metrics.on

  test('where only this machine listens, or there is a token', () => {
    expect(served({})).toBe(true)
    expect(served({ BAILIFF_HOST: '0.0.0.0' })).toBe(false)
    expect(served({ BAILIFF_HOST: '0.0.0.0', BAILIFF_METRICS_TOKEN: 'sixteen-letters!' })).toBe(true)
  })

  test('or as it is said', () => {
    expect(served({ BAILIFF_HOST: '0.0.0.0', BAILIFF_METRICS: 'on' })).toBe(true)
    expect(served({ BAILIFF_METRICS: 'off' })).toBe(false)
  })
})

describe('a secret may stand in a file', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'bailiff-settings-'))
    await writeFile(join(folder, 'url'), 'postgres://u:p@h/d\n')
  })
  afterAll(() => rm(folder, { recursive: true }))

  test('which its variable names', () => {
    const settings = readSettings({ DATABASE_URL_FILE: join(folder, 'url') })
    expect(settings.databaseUrl).toBe('postgres://u:p@h/d')
    expect(settings.warnings).toStrictEqual([])
  })

  test('but not beside the secret itself, and not where there is no file', () => {
    expect(problemsOf({ DATABASE_URL: 'postgres://u:p@h/d', DATABASE_URL_FILE: join(folder, 'url') })).toStrictEqual({
      DATABASE_URL: expect.stringContaining('DATABASE_URL_FILE'),
    })
    expect(problemsOf({ BAILIFF_VAULT_KEY_FILE: join(folder, 'none') })).toStrictEqual({
      BAILIFF_VAULT_KEY_FILE: expect.stringContaining('cannot be read'),
    })
  })

  test('and what is no secret does not', () => {
    expect(readSettings({ BAILIFF_PORT_FILE: join(folder, 'url') }).port).toBe(4400)
  })
})

describe('Inngest', () => {
  const keys = { INNGEST_EVENT_KEY: 'event-key', INNGEST_SIGNING_KEY: 'signkey-prod-ab' }

  test('needs both keys, and says so without starting half of it', () => {
    expect(problemsOf({ BAILIFF_ENGINE: 'inngest' })).toStrictEqual({
      INNGEST_EVENT_KEY: expect.stringContaining('is needed'),
      INNGEST_SIGNING_KEY: expect.stringContaining('is needed'),
    })
    expect(problemsOf({ BAILIFF_ENGINE: 'inngest', ...keys, INNGEST_SIGNING_KEY: ' ' })).toHaveProperty(
      'INNGEST_SIGNING_KEY',
    )
  })

  test('takes its keys and address, and nothing of them without being chosen', () => {
    const environment = { ...keys, INNGEST_BASE_URL: 'http://inngest:8288' }
    expect(readSettings({ BAILIFF_ENGINE: 'inngest', ...environment }).inngest).toStrictEqual({
      eventKey: 'event-key',
      signingKey: 'signkey-prod-ab',
      baseUrl: 'http://inngest:8288',
      dev: false,
    })
    expect(readSettings(environment)).toMatchObject({ engine: 'embedded', inngest: null })
  })

  test('a development server needs no keys, and is warned about where others reach this one', () => {
    const dev = { BAILIFF_ENGINE: 'inngest', INNGEST_DEV: 'http://127.0.0.1:8288' }
    expect(readSettings(dev)).toMatchObject({ inngest: { dev: true, baseUrl: 'http://127.0.0.1:8288' }, warnings: [] })
    expect(readSettings({ ...dev, INNGEST_DEV: '1' }).inngest).toMatchObject({ dev: true, baseUrl: null })
    expect(readSettings({ ...dev, BAILIFF_HOST: '0.0.0.0' }).warnings).toStrictEqual([
      expect.stringContaining('unsigned'),
    ])
    expect(problemsOf({ ...dev, INNGEST_DEV: '0' })).toHaveProperty('INNGEST_SIGNING_KEY')
  })
})
