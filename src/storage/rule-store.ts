import { sql } from 'kysely'
import type { RuleLimit } from '../decision/limits.ts'
import type { StoredRule, ValidRule } from '../policy/rule.ts'
import type { Actor } from '../tools/invocation.ts'
import type { Database, Queryable } from './database.ts'
import type { Selectable } from 'kysely'
import type { DatabaseSchema } from './schema.ts'
import { lockOrganization } from './organization-lock.ts'

export interface RuleStore {
  list(organizationId: string): Promise<readonly StoredRule[]>
  /** Inserts, or replaces the live rule of that name. Every change moves the organization's rules version. */
  save(change: RuleChange & { readonly id: string; readonly rule: ValidRule }): Promise<void>
  remove(change: RuleChange & { readonly name: string }): Promise<boolean>
  /** Makes the rules written by `by` exactly these, leaving everybody else's alone. Writes nothing when they already are. */
  sync(change: RuleChange & { readonly rules: readonly StoredRule[] }): Promise<void>
}

export interface RuleChange {
  readonly organizationId: string
  readonly by: Actor
}

export function ruleStore(database: Database): RuleStore {
  return {
    async list(organizationId) {
      return listRules(database, organizationId)
    },
    async save({ organizationId, by, id, rule }) {
      await database.transaction(async (tx) => {
        await retire(tx, organizationId, rule.name)
        await insert(tx, { organizationId, by }, { ...rule, id })
        await moveVersion(tx, organizationId)
      })
    },
    async remove({ organizationId, name }) {
      return database.transaction(async (tx) => {
        const removed = await retire(tx, organizationId, name)
        if (removed) await moveVersion(tx, organizationId)
        return removed
      })
    },
    async sync({ organizationId, by, rules }) {
      await database.transaction(async (tx) => {
        await lockOrganization(tx, organizationId)
        const rows = await tx.kysely
          .selectFrom('agent.policy_rules')
          .selectAll()
          .where('organization_id', '=', organizationId)
          .where('deleted_at', 'is', null)
          .where(sql<string>`created_by ->> 'id'`, '=', by.id)
          .execute()
        const stored = new Map(rows.map((row) => [row.name, contentOf(ruleOf(row))]))
        const wanted = new Map(rules.map((rule) => [rule.name, contentOf(rule)]))
        const changed = rules.filter((rule) => stored.get(rule.name) !== wanted.get(rule.name))
        const gone = [...stored.keys()].filter((name) => !wanted.has(name))
        for (const name of [...gone, ...changed.map((rule) => rule.name)]) await retire(tx, organizationId, name)
        for (const rule of changed) await insert(tx, { organizationId, by }, rule)
        if (changed.length + gone.length > 0) await moveVersion(tx, organizationId)
      })
    },
  }
}

async function listRules(db: Queryable, organizationId: string): Promise<readonly StoredRule[]> {
  const rows = await db.kysely
    .selectFrom('agent.policy_rules')
    .selectAll()
    .where('organization_id', '=', organizationId)
    .where('deleted_at', 'is', null)
    .orderBy('name')
    .execute()
  return rows.map(ruleOf)
}

async function retire(tx: Queryable, organizationId: string, name: string): Promise<boolean> {
  const retired = await tx.kysely
    .updateTable('agent.policy_rules')
    .set({ deleted_at: sql<Date>`clock_timestamp()` })
    .where('organization_id', '=', organizationId)
    .where('name', '=', name)
    .where('deleted_at', 'is', null)
    .executeTakeFirst()
  return retired.numUpdatedRows > 0n
}

async function insert(tx: Queryable, change: RuleChange, rule: StoredRule): Promise<void> {
  await tx.kysely
    .insertInto('agent.policy_rules')
    .values({
      id: rule.id,
      organization_id: change.organizationId,
      name: rule.name,
      tools: JSON.stringify(rule.tools),
      condition: rule.when,
      effect: rule.effect,
      mode: rule.mode,
      approvers: JSON.stringify(rule.approvers),
      ttl_s: rule.ttlS,
      call_limit: rule.limit === null ? null : JSON.stringify(rule.limit),
      created_by: JSON.stringify(change.by),
    })
    .execute()
}

async function moveVersion(tx: Queryable, organizationId: string): Promise<void> {
  await tx.kysely
    .updateTable('agent.organizations')
    .set({ rules_version: sql<number>`rules_version + 1` })
    .where('id', '=', organizationId)
    .execute()
}

function contentOf({ name, tools, when, effect, mode, approvers, ttlS, limit }: ValidRule): string {
  return JSON.stringify([name, tools, when, effect, mode, approvers, ttlS, limit?.count, limit?.per])
}

function ruleOf(row: Selectable<DatabaseSchema['agent.policy_rules']>): StoredRule {
  return {
    id: row.id,
    name: row.name,
    tools: row.tools as readonly string[],
    when: row.condition,
    effect: row.effect,
    mode: row.mode,
    approvers: row.approvers as readonly string[],
    ttlS: row.ttl_s,
    limit: row.call_limit as unknown as RuleLimit | null,
  }
}
