export type UnavailableReason =
  | 'malformed_url'
  | 'refused'
  | 'unknown_host'
  | 'timeout'
  | 'authentication'
  | 'unknown_database'
  | 'tls'
  | 'busy'
  | 'too_old'
  | 'unreachable'

/** The database could not be reached or used. The message names host and database, never a password, and ends with what to do. */
export class DatabaseUnavailable extends Error {
  readonly code = 'database_unavailable'
  readonly reason: UnavailableReason

  constructor(reason: UnavailableReason, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'DatabaseUnavailable'
    this.reason = reason
  }
}

/** Another process has the embedded data folder open, or may have. Two writers on one folder lose rows without any error. */
export class DataFolderInUse extends Error {
  readonly code = 'data_folder_in_use'
  readonly lockFile: string
  /** Process that holds the folder; null when the lock file does not say. */
  readonly pid: number | null

  constructor(lock: { lockFile: string; pid: number | null }, message: string) {
    super(message)
    this.name = 'DataFolderInUse'
    this.lockFile = lock.lockFile
    this.pid = lock.pid
  }
}

/** A statement of the transaction failed, its error was swallowed, and COMMIT therefore rolled everything back. */
export class TransactionAborted extends Error {
  readonly code = 'transaction_aborted'

  constructor(options?: ErrorOptions) {
    super('The transaction was rolled back at COMMIT because one of its statements had failed', options)
    this.name = 'TransactionAborted'
  }
}

/** A handle was used where it cannot be: the root handle inside its own transaction, or a transaction after its end. */
export class HandleMisused extends Error {
  readonly code = 'handle_misused'

  constructor(message: string) {
    super(message)
    this.name = 'HandleMisused'
  }
}

/** A query of a scoped handle could reach beyond its organization, or is of a kind that cannot be proven not to. */
export class ScopeRefused extends Error {
  readonly code = 'scope_refused'

  constructor(message: string) {
    super(message)
    this.name = 'ScopeRefused'
  }
}

export type MigrationRefusal = 'changed' | 'newer_database' | 'out_of_order' | 'bad_name'

/** Applying the migrations would not lead to the schema that this code knows. Nothing was changed. */
export class MigrationRefused extends Error {
  readonly code = 'migration_refused'
  readonly reason: MigrationRefusal

  constructor(reason: MigrationRefusal, message: string) {
    super(message)
    this.name = 'MigrationRefused'
    this.reason = reason
  }
}

/** SQLSTATE of an error that the server raised, the same on both drivers. */
export function sqlState(error: unknown): string | undefined {
  return textField(error, 'code')?.match(/^[0-9A-Z]{5}$/)?.[0]
}

/** Whether the error is a violated unique constraint or index, optionally of one name. */
export function isUniqueViolation(error: unknown, constraint?: string): boolean {
  if (sqlState(error) !== '23505') return false
  return constraint === undefined || textField(error, 'constraint') === constraint
}

/** Whether a text holds a character that the database cannot store: NUL is one, and JSON and URLs can carry it. */
export function isUnstorableText(error: unknown): boolean {
  return ['22021', '22P05'].includes(sqlState(error) ?? '')
}

function textField(error: unknown, field: 'code' | 'constraint'): string | undefined {
  if (typeof error !== 'object' || error === null) return undefined
  const value: unknown = Reflect.get(error, field)
  return typeof value === 'string' ? value : undefined
}
