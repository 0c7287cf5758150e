import { sql } from 'kysely'
import type { Actor } from '../tools/invocation.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** Insert once, next number: the version of a hash never changes, whichever deployment asks first. */
const VERSION = statement(
  'tool_version',
  `INSERT INTO agent.tools (name, schema_hash, version, spec)
   SELECT $1::text, decode($2, 'hex'), coalesce(max(version), 0) + 1, $3::jsonb FROM agent.tools WHERE name = $1
   ON CONFLICT DO NOTHING`,
)

const READ_VERSION = statement(
  'tool_read_version',
  `SELECT version FROM agent.tools WHERE name = $1::text AND schema_hash = decode($2, 'hex')`,
)

/** Two deployments that insert different hashes for one name in the same instant collide on the number; the loser asks again. */
const ROUNDS = 20

export interface ToolStore {
  versionOf(name: string, schemaHash: string, spec: object): Promise<number>
  disabled(organizationId: string): Promise<ReadonlySet<string>>
  setEnabled(change: {
    readonly organizationId: string
    readonly tool: string
    readonly enabled: boolean
    readonly by: Actor
  }): Promise<void>
}

export function toolStore(database: Queryable): ToolStore {
  return {
    async versionOf(name, schemaHash, spec) {
      for (let round = 0; round < ROUNDS; round += 1) {
        const { rows } = await database.query<{ version: number }>(READ_VERSION, [name, schemaHash])
        if (rows[0] !== undefined) return rows[0].version
        await database.query(VERSION, [name, schemaHash, JSON.stringify(spec)])
      }
      throw new Error(`no version could be stored for ${name}`)
    },
    async disabled(organizationId) {
      const rows = await database.kysely
        .selectFrom('agent.tool_states')
        .select('tool')
        .where('organization_id', '=', organizationId)
        .where('enabled', '=', false)
        .execute()
      return new Set(rows.map((row) => row.tool))
    },
    async setEnabled({ organizationId, tool, enabled, by }) {
      const state = { enabled, changed_by: JSON.stringify(by), changed_at: sql<Date>`clock_timestamp()` }
      await database.kysely
        .insertInto('agent.tool_states')
        .values({ organization_id: organizationId, tool, ...state })
        .onConflict((conflict) => conflict.columns(['organization_id', 'tool']).doUpdateSet(state))
        .execute()
    },
  }
}
