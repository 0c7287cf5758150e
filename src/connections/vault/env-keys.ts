import { createHash } from 'node:crypto'
import { decrypt, encrypt, KEY_BYTES } from './gcm.ts'
import { type KeyProvider, VaultFault } from './key-provider.ts'

/** The text does not hold usable keys. Never repeats any of it. */
export class VaultKeyError extends Error {
  override readonly name = 'VaultKeyError'
}

const REMEDY =
  'write 32 random bytes in base64 (make them with: openssl rand -base64 32); to rotate, put the new key first and keep the old ones behind it: new,old or name:new,name:old'

const MAX_KEYS = 20

export interface EnvKeys extends KeyProvider {
  /** Of every key it can open with. */
  readonly ids: readonly string[]
}

/**
 * Keys from one text: `key`, or `id:key` where the key should have a name, several separated by commas. The first wraps
 * from now on; the others only open what they wrapped. A key without a name is named by its fingerprint, so that it
 * keeps its name wherever it stands in the list.
 *
 * @throws VaultKeyError
 */
export function envKeyProvider(text: string): EnvKeys {
  const keys = readKeys(text)
  const [currentId] = keys.keys()
  if (currentId === undefined) throw new VaultKeyError(`there is no key; ${REMEDY}`)
  const keyOf = (id: string): Uint8Array => {
    const key = keys.get(id)
    if (key === undefined) throw new VaultFault('unknown_key')
    return key
  }
  return {
    currentId,
    ids: [...keys.keys()],
    wrap: async (dataKey, context) => encrypt(dataKey, { key: keyOf(currentId), context }),
    unwrap: async (wrapped, { keyId, context }) => decrypt(wrapped, { key: keyOf(keyId), context }),
  }
}

function readKeys(text: string): Map<string, Uint8Array> {
  const entries = text.split(',').map((entry) => entry.trim())
  if (entries.length > MAX_KEYS) throw new VaultKeyError(`there are more than ${MAX_KEYS} keys; ${REMEDY}`)
  const keys = new Map<string, Uint8Array>()
  for (const [index, entry] of entries.entries()) {
    const which = entries.length === 1 ? 'the key' : `key ${index + 1} of ${entries.length}`
    const [, name, encoded = ''] = /^(?:([A-Za-z0-9._-]{1,32}):)?([A-Za-z0-9+/]+=*)$/.exec(entry) ?? []
    const key = Buffer.from(encoded, 'base64')
    if (key.length !== KEY_BYTES || key.toString('base64') !== encoded)
      throw new VaultKeyError(`${which} is not 32 bytes in base64; ${REMEDY}`)
    const id = name ?? `key-${createHash('sha256').update(key).digest('hex').slice(0, 12)}`
    if (keys.has(id)) throw new VaultKeyError(`${which} is there twice; ${REMEDY}`)
    keys.set(id, key)
  }
  return keys
}
