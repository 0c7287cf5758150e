import type { ConnectionAuth, ConnectionRecord, ConnectionState } from '../connections/connection.ts'
import type { SealedField } from '../connections/vault/sealed.ts'
import type { Actor } from '../tools/invocation.ts'

export const CONNECTION_COLUMNS = [
  'id',
  'organization_id',
  'provider',
  'label',
  'state',
  'settings',
  'auth',
  'account',
  'scope',
  'expires_at',
  'reauth_reason',
  'created_at',
  'changed_at',
  'changed_by',
] as const

interface ConnectionRow {
  readonly id: string
  readonly organization_id: string
  readonly provider: string
  readonly label: string
  readonly state: ConnectionState
  readonly settings: unknown
  readonly auth: ConnectionAuth
  readonly account: string | null
  readonly scope: string | null
  readonly expires_at: Date | null
  readonly reauth_reason: string | null
  readonly created_at: Date
  readonly changed_at: Date
  readonly changed_by: unknown
}

export function toRecord(row: ConnectionRow): ConnectionRecord {
  return {
    id: row.id,
    organizationId: row.organization_id,
    provider: row.provider,
    label: row.label,
    state: row.state,
    settings: textsOf(row.settings),
    auth: row.auth,
    account: row.account,
    scope: row.scope,
    expiresAt: row.expires_at,
    reauthReason: row.reauth_reason,
    createdAt: row.created_at,
    changedAt: row.changed_at,
    changedBy: row.changed_by as Actor | null,
  }
}

/** Settings are written by these modules alone, but a row edited by hand must not put a number where a host is expected. */
export function textsOf(settings: unknown): Record<string, string> {
  if (typeof settings !== 'object' || settings === null) return {}
  return Object.fromEntries(
    Object.entries(settings).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

/** Names of a sealed value's columns, wherever one is stored. */
export const SEALED_COLUMNS = ['version', 'kek_id', 'wrapped_dek', 'sealed'] as const

interface SealedRow {
  readonly version: number
  readonly kek_id: string
  readonly wrapped_dek: Uint8Array
  readonly sealed: Uint8Array
}

export function toSealed(row: SealedRow) {
  return { version: row.version, keyId: row.kek_id, wrappedKey: row.wrapped_dek, sealed: row.sealed }
}

export function sealedRow(value: Omit<SealedField, 'field'>): SealedRow {
  return { version: value.version, kek_id: value.keyId, wrapped_dek: value.wrappedKey, sealed: value.sealed }
}
