import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import { ADDRESS_PATTERN, MAX_ADDRESS_LENGTH } from '../address.ts'
import { rootRunOf } from '../run-tree.ts'
import type { PeopleStore } from './people.ts'

const UPSERT = 'crm.upsert_person'

/** One line: no control characters, and something other than spaces. */
const line = (max: number) =>
  z
    .string()
    .max(max)
    .regex(/^\P{Cc}*[^\p{Cc}\s]\P{Cc}*$/u)

const Person = z.object({
  id: z.uuid(),
  name: z.string(),
  email: z.string(),
  company: z.string().nullable(),
  title: z.string().nullable(),
  trusted: z.boolean(),
})

/** The organization's own people. Failures of the store raise: an outage must never read as an empty answer. */
export function crmTools({ people }: { readonly people: PeopleStore }): ToolDeclaration[] {
  return [searchPeople(people), upsertPerson(people)]
}

function searchPeople(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: 'crm.search_people',
    description: 'Find people already in the CRM by name, company, title or email address. Every word has to match.',
    input: z.object({ query: line(100), limit: z.int().min(1).max(50).default(10) }),
    output: z.array(Person),
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.person',
    maxResults: 50,
    handler: {
      async execute({ organizationId }, { query, limit }) {
        const found = await people.search({ organizationId, text: query, limit })
        // One untrusted row is enough: a model reads the answer as a whole.
        return ok([...found], { untrusted: found.some(({ trusted }) => !trusted) })
      },
    },
  })
}

function upsertPerson(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: UPSERT,
    description:
      'Add a person to the CRM, or update the one with the same email address. Fields that are left out stay as they are.',
    input: z.object({
      email: z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN),
      name: line(200),
      company: line(200).optional(),
      title: line(200).optional(),
    }),
    output: z.object({ id: z.uuid(), created: z.boolean() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: {
      async execute(invocation, { email, name, company, title }) {
        const { organizationId, runId } = invocation
        const provenance = { runId, rootRunId: rootRunOf(invocation), tool: UPSERT }
        return ok(await people.upsert({ organizationId, email, name, company, title, provenance }))
      },
    },
  })
}
