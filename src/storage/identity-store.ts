import { createHash, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { v7 as uuidv7 } from 'uuid'
import type { Actor } from '../tools/invocation.ts'
import type { Database, Queryable } from './database.ts'
import { statement } from './statement.ts'
import { lockOrganization } from './organization-lock.ts'

export type KeyKind = 'run' | 'approve' | 'admin'
export type MemberRole = 'owner' | 'approver' | 'member' | 'viewer'

/** Who asks, and for which organization. */
export interface Identity {
  readonly organizationId: string
  readonly actor: Actor
  /** Role names as rules and approvers know them. */
  readonly roles: readonly string[]
  /** What the API lets them do; `view` reads and changes nothing. */
  readonly kind: KeyKind | 'view'
}

export interface User {
  readonly id: string
  readonly email: string
  readonly name: string
}

export interface ApiKey {
  readonly id: string
  readonly kind: KeyKind
  readonly name: string
  readonly createdAt: Date
  readonly revokedAt: Date | null
}

/** The secret is answered once and stored as a hash. */
export interface NewApiKey {
  readonly id: string
  readonly secret: string
}

export interface KeyRequest {
  readonly organizationId: string
  readonly kind: KeyKind
  /** For people: what the key is for. */
  readonly name: string
}

export interface ConsoleSession {
  readonly token: string
  readonly expiresAt: Date
}

export interface IdentityStore {
  /** Creates the organization's owner unless it has one. Of several processes that start at once, one is told `created`. */
  ensureOwner(owner: {
    readonly organizationId: string
    readonly email: string
    readonly name: string
  }): Promise<{ readonly user: User; readonly created: boolean }>
  /** Adds the person, or changes the role they have. */
  setMember(member: {
    readonly organizationId: string
    readonly email: string
    readonly name: string
    readonly role: MemberRole
  }): Promise<User>
  removeMember(organizationId: string, userId: string): Promise<boolean>
  createApiKey(request: KeyRequest): Promise<NewApiKey>
  /** A new secret for the key of that name, whose id stays: an actor that changed with every start could decide on its own runs. */
  rotateApiKey(request: KeyRequest): Promise<NewApiKey>
  /** Ends a key while it still has this secret. */
  retireSecret(secret: string): Promise<void>
  revokeApiKey(organizationId: string, id: string): Promise<boolean>
  listApiKeys(organizationId: string): Promise<readonly ApiKey[]>
  /** A token that signs the person in once. */
  createSignInToken(request: {
    readonly organizationId: string
    readonly userId: string
    readonly ttlS: number
  }): Promise<string>
  /** Of several uses at once, one wins. Null for a token that is unknown, used or expired. */
  useSignInToken(token: string, sessionTtlS: number): Promise<ConsoleSession | null>
  /** A browser session with the authority of the key, which ends with the key. */
  openKeySession(secret: string, sessionTtlS: number): Promise<ConsoleSession | null>
  endSession(token: string): Promise<void>
  authenticateKey(secret: string): Promise<Identity | null>
  authenticateSession(token: string): Promise<Identity | null>
  removeExpired(): Promise<number>
}

const KEY_ROLES: Readonly<Record<KeyKind, readonly string[]>> = {
  run: ['member'],
  approve: ['approver'],
  admin: ['owner', 'approver'],
}

const MEMBERS: Readonly<Record<MemberRole, { readonly roles: readonly string[]; readonly kind: Identity['kind'] }>> = {
  owner: { roles: ['owner', 'approver'], kind: 'admin' },
  approver: { roles: ['approver'], kind: 'approve' },
  member: { roles: ['member'], kind: 'run' },
  viewer: { roles: ['viewer'], kind: 'view' },
}

/** Nothing longer was ever handed out, so nothing longer is hashed. */
const MAX_SECRET = 200

const KEY = statement(
  'identity_key',
  `SELECT id, organization_id, kind, name FROM agent.api_keys WHERE key_hash = $1::bytea AND revoked_at IS NULL`,
)

/** A person's membership and a key are read live: taking either away ends the session with the next request. */
const SESSION = statement(
  'identity_session',
  `SELECT s.organization_id, u.id AS user_id, u.name AS user_name, m.role, k.id AS key_id, k.kind AS key_kind, k.name AS key_name
   FROM agent.console_sessions s
   LEFT JOIN agent.users u ON u.id = s.user_id
   LEFT JOIN agent.memberships m ON m.user_id = s.user_id AND m.organization_id = s.organization_id
   LEFT JOIN agent.api_keys k ON k.id = s.key_id AND k.organization_id = s.organization_id AND k.revoked_at IS NULL
   WHERE s.token_hash = $1::bytea AND s.kind = 'session' AND s.expires_at > clock_timestamp()`,
)

const USE_TOKEN = statement(
  'identity_use_token',
  `WITH used AS (
     UPDATE agent.console_sessions SET used_at = clock_timestamp()
     WHERE token_hash = $1::bytea AND kind = 'sign_in' AND used_at IS NULL AND expires_at > clock_timestamp()
     RETURNING organization_id, user_id)
   INSERT INTO agent.console_sessions (token_hash, organization_id, user_id, kind, expires_at)
   SELECT $2::bytea, organization_id, user_id, 'session', clock_timestamp() + make_interval(secs => $3::float8) FROM used
   RETURNING expires_at`,
)

const OPEN_KEY_SESSION = statement(
  'identity_key_session',
  `INSERT INTO agent.console_sessions (token_hash, organization_id, key_id, kind, expires_at)
   SELECT $2::bytea, organization_id, id, 'session', clock_timestamp() + make_interval(secs => $3::float8)
   FROM agent.api_keys WHERE key_hash = $1::bytea AND revoked_at IS NULL
   RETURNING expires_at`,
)

interface SessionRow {
  readonly organization_id: string
  readonly user_id: string | null
  readonly user_name: string | null
  readonly role: MemberRole | null
  readonly key_id: string | null
  readonly key_kind: KeyKind | null
  readonly key_name: string | null
}

export function identityStore(database: Database): IdentityStore {
  const { kysely } = database
  return {
    ensureOwner: (owner) => database.transaction((tx) => ensureOwner(tx, owner)),
    setMember: (member) => database.transaction((tx) => setMember(tx, member)),
    removeMember: (organizationId, userId) => removeMember(kysely, organizationId, userId),
    createApiKey: (request) => insertKey(database, request),
    rotateApiKey: (request) => database.transaction((tx) => rotateKey(tx, request)),
    async retireSecret(secret) {
      await kysely
        .updateTable('agent.api_keys')
        .set({ revoked_at: sql<Date>`clock_timestamp()` })
        .where('key_hash', '=', hashOf(secret))
        .execute()
    },
    revokeApiKey: (organizationId, id) => revokeKey(kysely, organizationId, id),
    listApiKeys: (organizationId) => listKeys(kysely, organizationId),
    async createSignInToken({ organizationId, userId, ttlS }) {
      const token = newToken()
      await kysely
        .insertInto('agent.console_sessions')
        .values({
          token_hash: hashOf(token),
          organization_id: organizationId,
          user_id: userId,
          kind: 'sign_in',
          expires_at: sql<Date>`clock_timestamp() + make_interval(secs => ${ttlS}::float8)`,
        })
        .execute()
      return token
    },
    useSignInToken: (token, ttlS) => openSession(database, USE_TOKEN, { credential: token, ttlS }),
    openKeySession: (secret, ttlS) => openSession(database, OPEN_KEY_SESSION, { credential: secret, ttlS }),
    async endSession(token) {
      await kysely.deleteFrom('agent.console_sessions').where('token_hash', '=', hashOf(token)).execute()
    },
    async authenticateKey(secret) {
      if (!isPlausible(secret)) return null
      const { rows } = await database.query<{ id: string; organization_id: string; kind: KeyKind; name: string }>(KEY, [
        hashOf(secret),
      ])
      const [row] = rows
      return row === undefined ? null : identityOfKey(row)
    },
    async authenticateSession(token) {
      if (!isPlausible(token)) return null
      const { rows } = await database.query<SessionRow>(SESSION, [hashOf(token)])
      const [row] = rows
      return row === undefined ? null : identityOfSession(row)
    },
    async removeExpired() {
      const removed = await kysely
        .deleteFrom('agent.console_sessions')
        .where('expires_at', '<=', sql<Date>`clock_timestamp()`)
        .executeTakeFirst()
      return Number(removed.numDeletedRows)
    },
  }
}

async function ensureOwner(
  tx: Queryable,
  owner: { readonly organizationId: string; readonly email: string; readonly name: string },
): Promise<{ readonly user: User; readonly created: boolean }> {
  await lockOrganization(tx, owner.organizationId)
  const found = await tx.kysely
    .selectFrom('agent.memberships as m')
    .innerJoin('agent.users as u', 'u.id', 'm.user_id')
    .select(['u.id', 'u.email', 'u.name'])
    .where('m.organization_id', '=', owner.organizationId)
    .where('m.role', '=', 'owner')
    .orderBy('m.created_at')
    .orderBy('u.id')
    .executeTakeFirst()
  if (found !== undefined) return { user: found, created: false }
  return { user: await setMember(tx, { ...owner, role: 'owner' }), created: true }
}

async function setMember(
  tx: Queryable,
  member: { readonly organizationId: string; readonly email: string; readonly name: string; readonly role: MemberRole },
): Promise<User> {
  const { organizationId, role, email, name } = member
  // The empty update makes the statement answer the row that is there, whichever of two racers made it.
  const user = await tx.kysely
    .insertInto('agent.users')
    .values({ id: uuidv7(), email, name })
    .onConflict((conflict) =>
      conflict.expression(sql`lower(email)`).doUpdateSet({ email: (eb) => eb.ref('agent.users.email') }),
    )
    .returning(['id', 'email', 'name'])
    .executeTakeFirstOrThrow()
  await tx.kysely
    .insertInto('agent.memberships')
    .values({ organization_id: organizationId, user_id: user.id, role })
    .onConflict((conflict) => conflict.columns(['organization_id', 'user_id']).doUpdateSet({ role }))
    .execute()
  return user
}

async function removeMember(kysely: Queryable['kysely'], organizationId: string, userId: string): Promise<boolean> {
  const removed = await kysely
    .deleteFrom('agent.memberships')
    .where('organization_id', '=', organizationId)
    .where('user_id', '=', userId)
    .executeTakeFirst()
  return removed.numDeletedRows > 0n
}

async function revokeKey(kysely: Queryable['kysely'], organizationId: string, id: string): Promise<boolean> {
  const revoked = await kysely
    .updateTable('agent.api_keys')
    .set({ revoked_at: sql<Date>`clock_timestamp()` })
    .where('organization_id', '=', organizationId)
    .where('id', '=', id)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return revoked.numUpdatedRows > 0n
}

async function listKeys(kysely: Queryable['kysely'], organizationId: string): Promise<readonly ApiKey[]> {
  const rows = await kysely
    .selectFrom('agent.api_keys')
    .select(['id', 'kind', 'name', 'created_at', 'revoked_at'])
    .where('organization_id', '=', organizationId)
    .orderBy('id')
    .execute()
  return rows.map(({ id, kind, name, created_at, revoked_at }) => ({
    id,
    kind,
    name,
    createdAt: created_at,
    revokedAt: revoked_at,
  }))
}

async function insertKey(db: Queryable, { organizationId, kind, name }: KeyRequest): Promise<NewApiKey> {
  const id = uuidv7()
  const secret = newSecret()
  await db.kysely
    .insertInto('agent.api_keys')
    .values({ id, organization_id: organizationId, kind, name, key_hash: hashOf(secret) })
    .execute()
  return { id, secret }
}

async function rotateKey(tx: Queryable, request: KeyRequest): Promise<NewApiKey> {
  await lockOrganization(tx, request.organizationId)
  const secret = newSecret()
  const rotated = await tx.kysely
    .updateTable('agent.api_keys')
    .set({ key_hash: hashOf(secret), revoked_at: null })
    .where('organization_id', '=', request.organizationId)
    .where('kind', '=', request.kind)
    .where('name', '=', request.name)
    .returning('id')
    .executeTakeFirst()
  return rotated === undefined ? insertKey(tx, request) : { id: rotated.id, secret }
}

async function openSession(
  db: Queryable,
  how: typeof USE_TOKEN,
  { credential, ttlS }: { readonly credential: string; readonly ttlS: number },
): Promise<ConsoleSession | null> {
  if (!isPlausible(credential)) return null
  const token = newToken()
  const { rows } = await db.query<{ expires_at: Date }>(how, [hashOf(credential), hashOf(token), ttlS])
  const [row] = rows
  return row === undefined ? null : { token, expiresAt: row.expires_at }
}

function identityOfKey(row: { id: string; organization_id: string; kind: KeyKind; name: string }): Identity {
  const actor: Actor = { kind: 'api_key', id: row.id, name: row.name }
  return { organizationId: row.organization_id, actor, roles: KEY_ROLES[row.kind], kind: row.kind }
}

function identityOfSession(row: SessionRow): Identity | null {
  const { organization_id, key_id, key_kind, key_name } = row
  if (key_id !== null && key_kind !== null)
    return identityOfKey({ id: key_id, organization_id, kind: key_kind, name: key_name ?? '' })
  if (row.user_id === null || row.role === null) return null
  const actor: Actor = { kind: 'user', id: row.user_id, name: row.user_name ?? '' }
  return { organizationId: organization_id, actor, ...MEMBERS[row.role] }
}

function isPlausible(secret: string): boolean {
  return secret !== '' && secret.length <= MAX_SECRET
}

/** Secrets have 256 random bits, so a plain hash is enough: there is nothing to guess. */
function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret, 'utf8').digest()
}

function newSecret(): string {
  return `bk_${randomBytes(32).toString('base64url')}`
}

function newToken(): string {
  return randomBytes(32).toString('base64url')
}
