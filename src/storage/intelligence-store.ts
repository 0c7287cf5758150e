import { createHash } from 'node:crypto'
import { v7 as uuidv7 } from 'uuid'
import type { Attribute, CompanyIntelligence, IntelligenceStore } from '../handlers/intelligence/intelligence.ts'
import type { Queryable } from './database.ts'
import { statement } from './statement.ts'

/** Facts answered of one company; twenty of a thousand characters fill most of an answer. */
const MAX_FACTS = 20

/** $1 patterns, $2 most companies, $3 most facts of each. */
export const SEARCH = statement(
  'intelligence.search',
  `SELECT c.domain, f.attribute, f.value, f.source, f.observed_at
   FROM (
     SELECT domain FROM public.intel_companies company
     WHERE NOT EXISTS (
       SELECT 1 FROM unnest($1::text[]) AS word
       WHERE company.domain NOT ILIKE word AND NOT EXISTS (
         SELECT 1 FROM public.intel_observations o WHERE o.domain = company.domain AND o.value ILIKE word
       )
     )
     ORDER BY domain LIMIT $2::integer
   ) c
   CROSS JOIN LATERAL (
     SELECT * FROM (
       SELECT DISTINCT ON (attribute, source) attribute, value, source, observed_at, id
       FROM public.intel_observations WHERE domain = c.domain
       ORDER BY attribute, source, observed_at DESC, id DESC
     ) newest
     ORDER BY observed_at DESC, id DESC LIMIT $3::integer
   ) f
   ORDER BY c.domain, f.observed_at DESC, f.id DESC`,
)

/** $1 id, $2 domain, $3 attribute, $4 value, $5 source, $6 hash. Nothing in it says who records. */
export const RECORD = statement(
  'intelligence.record',
  `WITH company AS (
     INSERT INTO public.intel_companies (domain) VALUES ($2::text)
     ON CONFLICT (domain) DO UPDATE SET last_observed_at = now()
     RETURNING domain
   )
   INSERT INTO public.intel_observations (id, domain, attribute, value, source, content_hash)
   SELECT $1::uuid, company.domain, $3::text, $4::text, $5::text, $6::bytea FROM company
   ON CONFLICT (domain, content_hash) DO UPDATE SET observed_at = now()
   RETURNING id`,
)

interface FactRow {
  readonly domain: string
  readonly attribute: Attribute
  readonly value: string
  readonly source: string
  readonly observed_at: Date
}

/**
 * The one store of Intelligence, on the service path: its tables deny every user role. They belong to no organization,
 * so nothing here takes one.
 */
export function intelligenceStore(database: Queryable): IntelligenceStore {
  return {
    async search({ words, limit }) {
      if (words.length === 0) return []
      const patterns = words.map((word) => `%${word.replace(/[\\%_]/g, String.raw`\$&`)}%`)
      const { rows } = await database.query<FactRow>(SEARCH, [patterns, limit, MAX_FACTS])
      return [...Map.groupBy(rows, ({ domain }) => domain)].map(([domain, facts]) => companyOf(domain, facts))
    },

    async record({ domain, attribute, value, source }) {
      const id = uuidv7()
      const hash = createHash('sha256')
        .update(JSON.stringify([attribute, value.normalize('NFC').replace(/\s+/g, ' ').trim(), source]))
        .digest()
      const { rows } = await database.query<{ id: string }>(RECORD, [id, domain, attribute, value, source, hash])
      return { created: rows[0]?.id === id }
    },
  }
}

function companyOf(domain: string, rows: readonly FactRow[]): CompanyIntelligence {
  const facts = rows.map(({ attribute, value, source, observed_at: observedAt }) => ({
    attribute,
    value,
    source,
    observedAt,
  }))
  return { domain, facts }
}
