import { z } from 'zod'

/** What a tool answers of a person; columns that are not here leave nobody. */
export const PersonShape = z.object({
  id: z.uuid(),
  name: z.string(),
  email: z.string().nullable(),
  linkedinUrl: z.string().nullable(),
  company: z.string().nullable(),
  companyId: z.uuid().nullable(),
  title: z.string().nullable(),
  location: z.string().nullable(),
  trusted: z.boolean(),
})

/** What a tool answers of a company. */
export const CompanyShape = z.object({
  id: z.uuid(),
  domain: z.string(),
  name: z.string(),
  industry: z.string().nullable(),
  employees: z.string().nullable(),
  location: z.string().nullable(),
  description: z.string().nullable(),
  trusted: z.boolean(),
})

/** What a tool answers of a list, without its members. */
export const ListShape = z.object({
  id: z.uuid(),
  name: z.string(),
  kind: z.enum(['person', 'company']),
  description: z.string().nullable(),
  trusted: z.boolean(),
})

/** Characters of a web address that is taken in any spelling. */
export const MAX_URL_LENGTH = 2_000

/** Rows of one search. */
export const searchLimit = z.int().min(1).max(50).default(10)

/** One untrusted row is enough: a model reads the answer as a whole. */
export function labelled(rows: readonly { readonly trusted: boolean }[]): { readonly untrusted: boolean } {
  return { untrusted: rows.some(({ trusted }) => !trusted) }
}
