import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { ConfigError, findConfig, loadConfig } from '../../server/config.ts'
import { modelFinder } from '../../server/models.ts'
import { databaseFolder } from '../../server/open-database.ts'
import { readSettings, SettingsError, type Settings } from '../../server/settings.ts'
import { readVaultKey, VaultKeyMissing } from '../../server/vault-key.ts'
import type { Database } from '../../storage/database.ts'
import { DataFolderInUse } from '../../storage/errors.ts'
import { pendingMigrations } from '../../storage/migrate.ts'
import { runningServer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { restoreFinding } from './restore-finding.ts'
import { oneLine, table } from '../text.ts'

export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'warning' | 'fault'
  readonly message: string
}

const MIN_NODE = [22, 13] as const

/** Looks at everything a start needs and changes nothing. Exits with 1 when something would keep a server from starting. */
export async function doctor(context: Context, options: { readonly config?: string }): Promise<void> {
  const findings = await examine(context, options)
  context.answer({ ok: findings.every(({ state }) => state !== 'fault'), findings }, () =>
    table(findings.map(({ check, state, message }) => [state, check, oneLine(message)])),
  )
  if (findings.some(({ state }) => state === 'fault')) throw new CommandFailed(EXIT.failed, 'a check found a fault')
}

async function examine(context: Context, options: { readonly config?: string }): Promise<Finding[]> {
  const node = nodeVersion()
  let settings: Settings
  try {
    settings = readSettings(context.environment)
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error
    return [node, ...error.problems.map(({ variable, message }) => fault('settings', `${variable}: ${message}`))]
  }
  const warnings = settings.warnings.map((message): Finding => ({ check: 'settings', state: 'warning', message }))
  const running = (await runningServer(settings.dataDir))?.url ?? null
  const [database, ...restore] = await databaseState(settings, running)
  return [
    node,
    ok('settings', 'every variable can be used'),
    ...warnings,
    await dataFolder(settings),
    ...(running === null ? [] : [ok('server', `running at ${running}`)]),
    database,
    ...restore,
    ...(database.state === 'fault' ? [] : await poolerState(settings)),
    ...(running === null ? [await portState(settings)] : []),
    await configState(options.config),
    await modelState(settings),
    await vaultState(settings),
  ]
}

function nodeVersion(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
  const enough = major > MIN_NODE[0] || (major === MIN_NODE[0] && minor >= MIN_NODE[1])
  return enough
    ? ok('node', process.versions.node)
    : fault('node', `${process.versions.node} is too old; install ${MIN_NODE.join('.')} or newer`)
}

async function dataFolder({ dataDir }: Settings): Promise<Finding> {
  try {
    const found = await stat(dataDir)
    if (!found.isDirectory())
      return fault('data folder', `${dataDir} is not a folder; choose another with BAILIFF_DATA_DIR`)
    await access(dataDir, constants.R_OK | constants.W_OK)
    return ok('data folder', dataDir)
  } catch (error) {
    const missing = error instanceof Error && Reflect.get(error, 'code') === 'ENOENT'
    if (!missing)
      return fault(
        'data folder',
        `${dataDir} cannot be read and written; mend its permissions or choose another with BAILIFF_DATA_DIR`,
      )
    return ok('data folder', `${dataDir} does not exist yet; a start makes it`)
  }
}

/** About the database, and, where it can be looked into, about what is in it. */
async function databaseState(settings: Settings, running: string | null): Promise<[Finding, ...Finding[]]> {
  if (settings.databaseUrl === null) {
    if (running !== null) return [ok('database', 'embedded, held by the running server')]
    if (!(await exists(databaseFolder(settings.dataDir)))) return [ok('database', 'embedded, made at the first start')]
  }
  let database: Database | undefined
  try {
    database = await openWithoutMigrating(settings)
    const pending = await pendingMigrations(database)
    if (pending.length === 0)
      return [ok('database', `${database.description} answers`), await restoreFinding(database, settings.dataDir)]
    const message = `${database.description} lacks ${pending.join(', ')}; a start or bailiff migrate applies them`
    return [{ check: 'database', state: 'warning', message }]
  } catch (error) {
    if (error instanceof DataFolderInUse) return [fault('database', error.message)]
    return [fault('database', error instanceof Error ? error.message : String(error))]
  } finally {
    await database?.close()
  }
}

/** Through a transaction pooler, whatever outlives a transaction is lost; what needs that has an address of its own. */
async function poolerState({ databaseUrl, databaseUrlDirect }: Settings): Promise<Finding[]> {
  const check = 'pooler'
  if (databaseUrl === null) return []
  const { probePooler } = await import('../../storage/pg/pooler.ts')
  try {
    const { pooled, named } = await probePooler(databaseUrl)
    const direct = databaseUrlDirect === null ? null : await probePooler(databaseUrlDirect)
    if (direct?.pooled === true)
      return [
        fault(check, 'DATABASE_URL_DIRECT leads through a transaction pooler too; write the address of the server'),
      ]
    if (!pooled) return []
    if (direct === null)
      return [
        fault(
          check,
          'DATABASE_URL leads through a transaction pooler, which loses LISTEN; set DATABASE_URL_DIRECT to the address of the server itself',
        ),
      ]
    return named
      ? [ok(check, 'statements go through the pooler, migrations and the queue past it')]
      : [
          {
            check,
            state: 'warning',
            message:
              'the pooler loses prepared statements, so that each is planned anew; PgBouncer 1.21 and newer keeps them with max_prepared_statements',
          },
        ]
  } catch (error) {
    return [fault(check, error instanceof Error ? error.message : String(error))]
  }
}

async function openWithoutMigrating(settings: Settings): Promise<Database> {
  if (settings.databaseUrl !== null)
    return (await import('../../storage/pg/index.ts')).pgDatabase({
      connectionString: settings.databaseUrlDirect ?? settings.databaseUrl,
    })
  return (await import('../../storage/pglite/index.ts')).pgliteDatabase({
    dataDir: databaseFolder(settings.dataDir),
    maintenanceMs: 0,
  })
}

async function portState({ host, port }: Settings): Promise<Finding> {
  const refusal = await new Promise<string | null>((resolve) => {
    const probe = createServer()
    probe.once('error', (error) => resolve(String(Reflect.get(error, 'code') ?? error.message)))
    probe.listen(port, host, () => probe.close(() => resolve(null)))
  })
  if (refusal === null) return ok('port', `${host}:${port} is free`)
  if (refusal === 'EADDRINUSE')
    return fault('port', `${host}:${port} is in use by another program; choose another with BAILIFF_PORT`)
  return fault('port', `${host}:${port} cannot be listened on (${refusal}); correct BAILIFF_HOST or BAILIFF_PORT`)
}

async function configState(path: string | undefined): Promise<Finding> {
  try {
    const found = path ?? (await findConfig(process.cwd()))
    await loadConfig(found)
    return ok('config', `${found} loads; bailiff tools check looks inside`)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    // Without --config the folder may simply be the wrong one.
    return {
      check: 'config',
      state: path === undefined && error.fault === 'missing' ? 'warning' : 'fault',
      message: error.message,
    }
  }
}

async function modelState(settings: Settings): Promise<Finding> {
  if (settings.model === null)
    return {
      check: 'model',
      state: 'warning',
      message: 'BAILIFF_MODEL is not set: runs use the model of the config file, a scripted one in the demo',
    }
  // Its object stands in the config file, which only a start builds.
  if (settings.model.startsWith('scripted/')) return ok('model', `${settings.model} (a script, no language model)`)
  try {
    await modelFinder(settings)(settings.model)
    return ok('model', `${settings.model}, with its key; whether the provider takes it shows at the first run`)
  } catch (error) {
    return fault('model', error instanceof Error ? error.message : String(error))
  }
}

/** Whether the keys fit what is stored shows at a start, which says so. */
async function vaultState(settings: Settings): Promise<Finding> {
  const check = 'vault'
  try {
    const vault = await readVaultKey(settings, false)
    if (vault === null)
      return ok(check, 'BAILIFF_VAULT_KEY is not set; it is needed where people connect accounts, but for a demo')
    const [notice] = vault.notices
    return notice === undefined
      ? ok(check, `sealing with ${vault.keys.currentId}`)
      : { check, state: 'warning', message: notice }
  } catch (error) {
    if (!(error instanceof VaultKeyMissing)) throw error
    return fault(check, error.message)
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

function ok(check: string, message: string): Finding {
  return { check, state: 'ok', message }
}

function fault(check: string, message: string): Finding {
  return { check, state: 'fault', message }
}
