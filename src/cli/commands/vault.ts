import { rotateSecrets, vaultStatus, type SecretStore } from '../../connections/vault/rotation.ts'
import type { EnvKeys } from '../../connections/vault/env-keys.ts'
import { serverLogger } from '../../server/logger.ts'
import { openDatabase } from '../../server/open-database.ts'
import { readSettings } from '../../server/settings.ts'
import { readVaultKey } from '../../server/vault-key.ts'
import { secretStore } from '../../storage/vault-store.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { counted, table } from '../text.ts'

interface OpenVault {
  readonly keys: EnvKeys
  readonly store: SecretStore
}

/** Which keys the stored secrets are sealed with, and how many still need an old one. Opens none of them. */
export async function showVault(context: Context): Promise<void> {
  await withVault(context, async (vault) => {
    const status = await vaultStatus(vault)
    const at = (keyId: string): string =>
      keyId === status.currentKey
        ? 'current'
        : vault.keys.ids.includes(keyId)
          ? 'old'
          : 'MISSING from BAILIFF_VAULT_KEY'
    context.answer(status, () =>
      [
        table([
          ['key', 'secrets', ''],
          ...status.keys.map(({ keyId, secrets }) => [keyId, String(secrets), at(keyId)]),
        ]),
        status.remaining === 0
          ? `everything is sealed with ${status.currentKey}; older keys may go`
          : `${counted(status.remaining, 'secret')} still need an older key: bailiff vault rotate`,
      ].join('\n'),
    )
  })
}

/** Seals what older keys sealed with the current one. May be stopped and started again. */
export async function rotateVault(context: Context): Promise<void> {
  await withVault(context, async (vault) => {
    const report = await rotateSecrets(vault, ({ resealed }) => context.note(`${counted(resealed, 'secret')} resealed`))
    context.answer(report, () =>
      report.remaining === 0
        ? `${counted(report.resealed, 'secret')} resealed with ${vault.keys.currentId}; older keys may go`
        : `${counted(report.resealed, 'secret')} resealed; ${report.remaining} still need an older key, ${report.unreadable} of them did not open`,
    )
    if (report.unreadable > 0)
      throw new CommandFailed(
        EXIT.failed,
        `${counted(report.unreadable, 'secret')} did not open with any key in BAILIFF_VAULT_KEY`,
        'add the key they were sealed with (bailiff vault status names it), or reconnect those accounts',
      )
  })
}

async function withVault(context: Context, work: (vault: OpenVault) => Promise<void>): Promise<void> {
  const settings = readSettings(context.environment)
  const vault = await readVaultKey(settings, false)
  if (vault === null)
    throw new CommandFailed(EXIT.usage, 'BAILIFF_VAULT_KEY is not set', 'set it as it is set for the server')
  const { database } = await openDatabase(settings, serverLogger('warn'))
  try {
    await work({ keys: vault.keys, store: secretStore(database) })
  } finally {
    await database.close()
  }
}
