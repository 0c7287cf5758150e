import { randomBytes } from 'node:crypto'
import { decrypt, encrypt, KEY_BYTES } from './gcm.ts'
import { type KeyProvider, VaultFault } from './key-provider.ts'
import type { Sealed, SealPlace } from './sealed.ts'

/** The only form there is so far. */
const VERSION = 1

/**
 * Seals a value for one place, under a data key of its own: no data key and no iv is ever used twice, so nothing has to
 * be counted.
 */
export async function seal(keys: KeyProvider, place: SealPlace, value: string): Promise<Sealed> {
  const { currentId: keyId } = keys
  const context = contextOf(place, keyId)
  const key = randomBytes(KEY_BYTES)
  try {
    const sealed = encrypt(Buffer.from(value, 'utf8'), { key, context })
    return { version: VERSION, keyId, wrappedKey: await keys.wrap(key, context), sealed }
  } finally {
    key.fill(0)
  }
}

/** @throws VaultFault for anything but exactly what was sealed for this place */
export async function unseal(keys: KeyProvider, place: SealPlace, stored: Sealed): Promise<string> {
  if (stored.version !== VERSION) throw new VaultFault('malformed')
  const context = contextOf(place, stored.keyId)
  const key = await keys.unwrap(stored.wrappedKey, { keyId: stored.keyId, context })
  try {
    return decrypt(stored.sealed, { key, context }).toString('utf8')
  } finally {
    key.fill(0)
  }
}

/** JSON of a list: no two places have the same text, whatever stands in their names. */
function contextOf({ organizationId, connectionId, field }: SealPlace, keyId: string): Buffer {
  return Buffer.from(JSON.stringify(['cred.v1', organizationId, connectionId, field, keyId]), 'utf8')
}
