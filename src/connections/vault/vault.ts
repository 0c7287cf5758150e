import { seal, unseal } from './envelope.ts'
import type { KeyProvider } from './key-provider.ts'
import type { Sealed, SealedField, SealPlace } from './sealed.ts'

export type SealOwner = Omit<SealPlace, 'field'>

/** Seals and opens whole credentials, field by field. Keeps nothing. */
export interface Vault {
  sealAll(owner: SealOwner, values: Readonly<Record<string, string>>): Promise<readonly SealedField[]>
  /** @throws VaultFault when any of them does not open */
  openAll(owner: SealOwner, fields: readonly SealedField[]): Promise<Readonly<Record<string, string>>>
  seal(place: SealPlace, value: string): Promise<Sealed>
  /** @throws VaultFault */
  open(place: SealPlace, stored: Sealed): Promise<string>
}

export function vaultOver(keys: KeyProvider): Vault {
  return {
    sealAll: (owner, values) =>
      Promise.all(
        Object.entries(values).map(async ([field, value]) => ({
          field,
          ...(await seal(keys, { ...owner, field }, value)),
        })),
      ),
    async openAll(owner, fields) {
      const opened = fields.map(async (stored) => {
        const { field } = stored
        return [field, await unseal(keys, { ...owner, field }, stored)] as const
      })
      return Object.fromEntries(await Promise.all(opened))
    },
    seal: (place, value) => seal(keys, place, value),
    open: (place, stored) => unseal(keys, place, stored),
  }
}
