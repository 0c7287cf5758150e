import type { PolicySettings, PolicySource } from '../policy/policy.ts'
import type { StoredRule } from '../policy/rule.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** Version, settings and rules in one statement: they belong together. */
const READ = statement(
  'policy_read',
  `SELECT o.rules_version, o.settings, coalesce((
     SELECT jsonb_agg(jsonb_build_object('id', r.id, 'name', r.name, 'tools', r.tools, 'when', r.condition, 'effect', r.effect,
       'mode', r.mode, 'approvers', r.approvers, 'ttlS', r.ttl_s, 'limit', r.call_limit) ORDER BY r.name)
     FROM agent.policy_rules r WHERE r.organization_id = o.id AND r.deleted_at IS NULL
   ), '[]'::jsonb) AS rules
   FROM agent.organizations o WHERE o.id = $1::uuid`,
)

export function policySource(database: Queryable): PolicySource {
  return {
    async read(organizationId) {
      const { rows } = await database.query<{ rules_version: number; settings: PolicySettings; rules: StoredRule[] }>(
        READ,
        [organizationId],
      )
      const row = rows[0]
      if (row === undefined) throw new Error(`organization ${organizationId} does not exist`)
      return { version: row.rules_version, rules: row.rules, settings: row.settings }
    },
  }
}
