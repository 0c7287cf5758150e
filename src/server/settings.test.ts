import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
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
    model: null,
    modelBaseUrl: null,
    keys: { openai: null, anthropic: null, google: null, model: null },
    engine: 'embedded',
    trustProxy: false,
    publicUrl: null,
    vaultKey: null,
    vendorKeys: { exa: null, parallel: null, firecrawl: null, hunter: null, nylas: null },
    outgoingAllow: [],
    sentryDsn: null,
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
    ['BAILIFF_ENGINE', 'inngest', 'this build has no Inngest engine'],
    ['BAILIFF_ENGINE', 'temporal', 'embedded'],
    ['BAILIFF_OUTGOING_ALLOW', 'http://mail.internal', 'host:port or ranges'],
    ['HUNTER_API_KEY', 'two words', 'key of the vendor'],
    ['SENTRY_DSN', 'sentry', 'DSN of the Sentry project'],
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
    })
    expect(Object.keys(problems)).toHaveLength(4)
    expect(JSON.stringify(problems)).not.toContain('hunter2')
  })
})

test('a name that is nearly a setting is warned about, a deployment’s own is not', () => {
  expect(
    readSettings({ BAILIFF_PROT: '1', BAILIFF_DEMO_COLOUR: 'red', BAILIFF_API_KEY: 'bk_x' }).warnings,
  ).toStrictEqual([expect.stringContaining('did you mean BAILIFF_PORT?')])
})
