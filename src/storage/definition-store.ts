import { sha256Hex } from '../tools/canonical.ts'
import type { Database, Queryable } from './database.ts'
import { lockOrganization } from './organization-lock.ts'

export interface StoredDefinition {
  readonly id: string
  readonly organizationId: string
  readonly slug: string
  readonly version: number
  readonly body: object
}

export interface DefinitionStore {
  /** A body that is already the newest version is not published again. */
  publish(definition: {
    readonly id: string
    readonly organizationId: string
    readonly slug: string
    readonly body: object
  }): Promise<StoredDefinition>
  latest(organizationId: string, slug: string): Promise<StoredDefinition | null>
  list(organizationId: string): Promise<readonly StoredDefinition[]>
}

export function definitionStore(database: Database): DefinitionStore {
  const latest = async (db: Queryable, organizationId: string, slug: string) =>
    db.kysely
      .selectFrom('agent.definitions')
      .selectAll()
      .where('organization_id', '=', organizationId)
      .where('slug', '=', slug)
      .orderBy('version', 'desc')
      .limit(1)
      .executeTakeFirst()
  return {
    async publish({ id, organizationId, slug, body }) {
      const text = JSON.stringify(body)
      const hash = Buffer.from(sha256Hex(text), 'hex')
      return database.transaction(async (tx) => {
        await lockOrganization(tx, organizationId)
        const newest = await latest(tx, organizationId, slug)
        if (newest !== undefined && Buffer.from(newest.body_hash).equals(hash)) return definitionOf(newest)
        const row = await tx.kysely
          .insertInto('agent.definitions')
          .values({
            id,
            organization_id: organizationId,
            slug,
            version: (newest?.version ?? 0) + 1,
            body: text,
            body_hash: hash,
          })
          .returningAll()
          .executeTakeFirstOrThrow()
        return definitionOf(row)
      })
    },
    async latest(organizationId, slug) {
      const row = await latest(database, organizationId, slug)
      return row === undefined ? null : definitionOf(row)
    },
    async list(organizationId) {
      const rows = await database.kysely
        .selectFrom('agent.definitions')
        .selectAll()
        .distinctOn('slug')
        .where('organization_id', '=', organizationId)
        .orderBy('slug')
        .orderBy('version', 'desc')
        .execute()
      return rows.map(definitionOf)
    },
  }
}

function definitionOf(row: {
  id: string
  organization_id: string
  slug: string
  version: number
  body: unknown
}): StoredDefinition {
  return {
    id: row.id,
    organizationId: row.organization_id,
    slug: row.slug,
    version: row.version,
    body: row.body as object,
  }
}
