import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { VaultFault } from './key-provider.ts'

export const KEY_BYTES = 32
const IV_BYTES = 12
const TAG_BYTES = 16

/** Without it Node takes tags of four bytes, which a guess gets right once in four billion. */
const OPTIONS = { authTagLength: TAG_BYTES } as const

interface Locked {
  readonly key: Uint8Array
  /** Authenticated, not stored: whoever opens has to say it again. */
  readonly context: Uint8Array
}

/** AES-256-GCM with a random iv: iv | tag | ciphertext. */
export function encrypt(plaintext: Uint8Array, { key, context }: Locked): Buffer {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, iv, OPTIONS).setAAD(context)
  const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), ciphertext])
}

/** @throws VaultFault */
export function decrypt(bytes: Uint8Array, { key, context }: Locked): Buffer {
  if (key.length !== KEY_BYTES || bytes.length < IV_BYTES + TAG_BYTES) throw new VaultFault('malformed')
  const iv = bytes.subarray(0, IV_BYTES)
  const tag = bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', key, iv, OPTIONS).setAAD(context).setAuthTag(tag)
  const plaintext = decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES))
  try {
    return Buffer.concat([plaintext, decipher.final()])
  } catch {
    throw new VaultFault('tampered')
  } finally {
    plaintext.fill(0)
  }
}
