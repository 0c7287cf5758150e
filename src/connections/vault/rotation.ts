import { seal, unseal } from './envelope.ts'
import { type KeyProvider, VaultFault } from './key-provider.ts'
import type { Sealed, SealedField } from './sealed.ts'

/** A stored secret with the place it is at. */
export interface StoredSecret extends SealedField {
  readonly organizationId: string
  readonly connectionId: string
}

export interface KeyCount {
  readonly keyId: string
  readonly secrets: number
}

export interface SecretStore {
  countByKey(): Promise<readonly KeyCount[]>
  /** What is sealed with any other key, in an order that does not change, behind the one given. */
  sealedOtherwise(
    keyId: string,
    page: { readonly limit: number; readonly after: StoredSecret | null },
  ): Promise<readonly StoredSecret[]>
  /** Replaces it if it still is what was read; false when somebody else wrote or removed it in between. */
  replace(was: StoredSecret, now: Sealed): Promise<boolean>
}

export interface RotationReport {
  /** Sealed anew with the current key. */
  readonly resealed: number
  /** Did not open with any key at hand; left as they were. */
  readonly unreadable: number
  /** Still under another key than the current one when this ended: 0 means that old keys may go. */
  readonly remaining: number
}

const BATCH = 100

/**
 * Brings every stored secret under the current key, batch by batch. Safe to stop and start again, and to run beside a
 * server: each replacement is conditional on what was read. The key's name is authenticated with both layers, so a
 * secret is sealed anew rather than wrapped anew, and gets a fresh data key with it.
 */
export async function rotateSecrets(
  { keys, store }: { readonly keys: KeyProvider; readonly store: SecretStore },
  onBatch: (done: { readonly resealed: number }) => void = () => undefined,
): Promise<RotationReport> {
  let resealed = 0
  let unreadable = 0
  let after: StoredSecret | null = null
  for (;;) {
    const batch = await store.sealedOtherwise(keys.currentId, { limit: BATCH, after })
    for (const secret of batch) {
      const now = await reseal(keys, secret)
      if (now === null) unreadable += 1
      else if (await store.replace(secret, now)) resealed += 1
    }
    after = batch.at(-1) ?? null
    if (after === null) break
    onBatch({ resealed })
  }
  return { resealed, unreadable, remaining: (await vaultStatus({ keys, store })).remaining }
}

/** Null for one that does not open: the others must not wait for it. */
async function reseal(keys: KeyProvider, stored: StoredSecret): Promise<Sealed | null> {
  try {
    return await seal(keys, stored, await unseal(keys, stored, stored))
  } catch (error) {
    if (error instanceof VaultFault) return null
    throw error
  }
}

export interface VaultStatus {
  readonly currentKey: string
  readonly keys: readonly KeyCount[]
  /** Sealed with another key than the current one. */
  readonly remaining: number
}

export async function vaultStatus({
  keys,
  store,
}: {
  readonly keys: KeyProvider
  readonly store: SecretStore
}): Promise<VaultStatus> {
  const counts = await store.countByKey()
  const others = counts.filter(({ keyId }) => keyId !== keys.currentId)
  return {
    currentKey: keys.currentId,
    keys: counts,
    remaining: others.reduce((sum, { secrets }) => sum + secrets, 0),
  }
}
