/**
 * Wraps data keys with keys that never leave it: from the environment ({@link envKeyProvider}), or a key service. A
 * wrapped key opens only with the same `context`, which says what it is for.
 */
export interface KeyProvider {
  /** Of the key that wraps from now on. Stored in the clear beside what it wraps. */
  readonly currentId: string
  wrap(dataKey: Uint8Array, context: Uint8Array): Promise<Uint8Array>
  /** @throws VaultFault for a key it does not have, or bytes that were not wrapped by it for this context */
  unwrap(wrapped: Uint8Array, from: { readonly keyId: string; readonly context: Uint8Array }): Promise<Uint8Array>
}

/**
 * `key`: 32 bytes in base64, as `openssl rand -base64 32` prints them; several separated by commas, the current one
 * first. `keys`: a key service of your own.
 */
export type VaultOptions = { readonly key: string } | { readonly keys: KeyProvider }

export type VaultFaultReason = 'unknown_key' | 'malformed' | 'tampered'

const SAYS: Readonly<Record<VaultFaultReason, string>> = {
  unknown_key: 'it is sealed with a key that this process does not have',
  malformed: 'it is not in a form that this version reads',
  tampered: 'it was altered, cut, moved from another place, or sealed with another key of the same name',
}

/** A sealed secret does not open. Says which kind of trouble it is, and nothing of the secret, the key or the bytes. */
export class VaultFault extends Error {
  override readonly name = 'VaultFault'
  readonly reason: VaultFaultReason
  constructor(reason: VaultFaultReason) {
    super(`a stored secret cannot be opened: ${SAYS[reason]}`)
    this.reason = reason
  }
}
