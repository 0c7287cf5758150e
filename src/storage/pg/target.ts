import { DatabaseUnavailable, type UnavailableReason } from '../errors.ts'

/** Where a connection string points, without anything secret. */
export interface Target {
  readonly host: string
  readonly database: string
  readonly user: string
}

/** Reads a connection string. Throws `DatabaseUnavailable` (`malformed_url`) without repeating the string, which holds a password. */
export function readTarget(connectionString: string): Target {
  const malformed = (problem: string): DatabaseUnavailable =>
    new DatabaseUnavailable(
      'malformed_url',
      `The database URL ${problem}. Write it as postgres://user:password@host:5432/database, ` +
        'with special characters in user and password percent-encoded.',
    )
  let url: URL
  try {
    url = new URL(connectionString)
  } catch {
    throw malformed('is not a URL')
  }
  if (url.protocol !== 'postgres:' && url.protocol !== 'postgresql:') throw malformed(`starts with ${url.protocol}`)
  try {
    const database = decodeURIComponent(url.pathname.slice(1))
    const user = url.searchParams.get('user') ?? decodeURIComponent(url.username)
    const host = url.searchParams.get('host') ?? (url.hostname === '' ? 'localhost' : url.hostname)
    return {
      host: host.startsWith('/') ? host : `${host}:${url.port === '' ? '5432' : url.port}`,
      // The server takes the user's name where no database is named.
      database: database === '' ? user : database,
      user,
    }
  } catch {
    throw malformed('holds a wrong percent-encoding')
  }
}

export function describeTarget(target: Target): string {
  return `PostgreSQL at ${target.host}/${target.database}`
}

/** Says in one sentence each why a connection failed and what to do. */
export function unavailable(target: Target, cause: unknown): DatabaseUnavailable {
  const reason = reasonOf(cause)
  const { what, remedy } = explain(reason, target)
  return new DatabaseUnavailable(reason, `${describeTarget(target)} ${what}. ${remedy}`, { cause })
}

const REASONS: Readonly<Record<string, UnavailableReason>> = {
  ECONNREFUSED: 'refused',
  ENOENT: 'refused',
  ENOTFOUND: 'unknown_host',
  EAI_AGAIN: 'unknown_host',
  ETIMEDOUT: 'timeout',
  '28P01': 'authentication',
  '28000': 'authentication',
  '3D000': 'unknown_database',
  '53300': 'busy',
  '57P03': 'busy',
  SELF_SIGNED_CERT_IN_CHAIN: 'tls',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'tls',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'tls',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'tls',
  CERT_HAS_EXPIRED: 'tls',
  ERR_TLS_CERT_ALTNAME_INVALID: 'tls',
}

function reasonOf(cause: unknown): UnavailableReason {
  if (!(cause instanceof Error)) return 'unreachable'
  const code: unknown = Reflect.get(cause, 'code')
  if (typeof code === 'string' && Object.hasOwn(REASONS, code)) return REASONS[code] ?? 'unreachable'
  // Node tries every address of a host and reports them together.
  if (cause instanceof AggregateError) return reasonOf(cause.errors[0])
  // The driver gives these no code.
  if (cause.message.includes('timeout')) return 'timeout'
  if (cause.message.includes('SSL')) return 'tls'
  if (cause.message.includes('password')) return 'authentication'
  return 'unreachable'
}

function explain(reason: UnavailableReason, target: Target): { what: string; remedy: string } {
  switch (reason) {
    case 'refused':
      return { what: 'refuses connections', remedy: 'Start the server, or correct host and port in the database URL.' }
    case 'unknown_host':
      return { what: 'has a host name that does not resolve', remedy: 'Correct the host in the database URL.' }
    case 'timeout':
      return { what: 'did not answer in time', remedy: 'Check network, firewall and the number of free connections.' }
    case 'authentication':
      return {
        what: `refuses user "${target.user}"`,
        remedy: 'Correct user and password in the database URL, or allow this client in pg_hba.conf.',
      }
    case 'unknown_database':
      return {
        what: 'has no such database',
        remedy: `Create it (createdb ${target.database}) or correct the database URL.`,
      }
    case 'tls':
      return { what: 'failed the TLS handshake', remedy: 'Check the certificate and sslmode in the database URL.' }
    case 'busy':
      return {
        what: 'takes no more connections now',
        remedy: 'Wait for it to finish starting, or raise max_connections.',
      }
    case 'too_old':
    case 'malformed_url':
    case 'unreachable':
      return { what: 'cannot be reached', remedy: 'Check that the server runs and that the database URL is right.' }
    default:
      return reason satisfies never
  }
}
