import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { envKeyProvider, type EnvKeys, VaultKeyError } from '../connections/vault/env-keys.ts'
import type { Database } from '../storage/database.ts'
import { secretStore } from '../storage/vault-store.ts'
import type { AppParts } from './config.ts'
import type { Settings } from './settings.ts'

/** Stored secrets cannot be kept or opened for want of a key. The message says which, and how to get one. */
export class VaultKeyMissing extends Error {
  override readonly name = 'VaultKeyMissing'
}

export interface VaultKey {
  readonly keys: EnvKeys
  /** For a person, at start. */
  readonly notices: readonly string[]
}

const MAKE_ONE =
  'make one with: openssl rand -base64 32, set it as BAILIFF_VAULT_KEY, and keep a copy away from the database'

export function vaultKeyFile(dataDir: string): string {
  return join(dataDir, 'vault.key')
}

interface Wanting {
  readonly settings: Pick<Settings, 'dataDir' | 'vaultKey'>
  readonly demo: boolean
  readonly parts: Pick<AppParts, 'providers'>
  readonly database: Database
}

/**
 * The keys a server starts with. Null where nothing needs one: no provider is offered and no secret is stored.
 * @throws VaultKeyMissing when secrets could not be kept, or what is stored could not be opened
 */
export async function vaultFor({ settings, demo, parts, database }: Wanting): Promise<VaultKey | null> {
  const vault = await readVaultKey(settings, demo)
  const stored = await secretStore(database).countByKey()
  if (vault === null) {
    const offered = (parts.providers ?? []).map(({ name }) => name)
    if (offered.length === 0 && stored.length === 0) return null
    const why =
      stored.length > 0 ? 'secrets of connections are stored here' : `people can connect ${offered.join(', ')}`
    throw new VaultKeyMissing(`there is no vault key, and ${why}: ${MAKE_ONE}`)
  }
  const lost = stored.filter(({ keyId }) => !vault.keys.ids.includes(keyId))
  if (lost.length === 0) return vault
  const named = lost.map(({ keyId, secrets }) => `${keyId} (${secrets} stored)`).join(', ')
  throw new VaultKeyMissing(
    `BAILIFF_VAULT_KEY lacks a key that stored secrets are sealed with: ${named}. Add it behind the current one, separated by a comma; bailiff vault rotate then makes it dispensable`,
  )
}

/**
 * The keys of the settings; without them, those of the data folder's file, which a demo makes.
 * @throws VaultKeyMissing when the file holds something else
 */
export async function readVaultKey(
  { dataDir, vaultKey }: Pick<Settings, 'dataDir' | 'vaultKey'>,
  demo: boolean,
): Promise<VaultKey | null> {
  if (vaultKey !== null) return { keys: envKeyProvider(vaultKey), notices: [] }
  const file = vaultKeyFile(dataDir)
  const text = await readFile(file, 'utf8').catch(absent)
  if (text === null && !demo) return null
  const notices = [
    `vault: sealed with the key in ${file}, which lies beside the data; set BAILIFF_VAULT_KEY for real accounts`,
  ]
  return { keys: keysOf(text ?? (await makeKey(file)), file), notices }
}

async function makeKey(file: string): Promise<string> {
  const key = randomBytes(32).toString('base64')
  try {
    await writeFile(file, `${key}\n`, { mode: 0o600, flag: 'wx' })
    return key
  } catch (error) {
    if (!(error instanceof Error && Reflect.get(error, 'code') === 'EEXIST')) throw error
    // Another process that starts on this folder was first.
    return readFile(file, 'utf8')
  }
}

function keysOf(text: string, file: string): EnvKeys {
  try {
    return envKeyProvider(text.trim())
  } catch (error) {
    if (!(error instanceof VaultKeyError)) throw error
    throw new VaultKeyMissing(`${file} holds no usable key; restore it, or set BAILIFF_VAULT_KEY`, { cause: error })
  }
}

function absent(error: unknown): null {
  if (error instanceof Error && Reflect.get(error, 'code') === 'ENOENT') return null
  throw error
}
