import { internalTool, ok } from 'bailiff'
import { z } from 'zod'

/** What one batch of the enrichment takes. */
const MAX_CONTACTS = 25

const Company = z.object({ name: z.string(), domain: z.string() })

const SortInput = z.object({
  company: Company,
  companyId: z.string(),
  /** The next three are about the same people, in one order. */
  names: z.array(z.string()).max(10),
  /** Null where there is no confirmed one. */
  emails: z.array(z.string().nullable()).max(10),
  titles: z.array(z.string().nullable()).max(10),
})

const Confirmed = z.object({ name: z.string(), email: z.string(), title: z.string().nullable() })

const Open = z.object({ name: z.string(), company: Company, companyId: z.string() })

const SortOutput = z.object({
  company: Company,
  companyId: z.string(),
  confirmed: z.array(Confirmed),
  /** Whose address is still to be found. */
  open: z.array(Open),
})

/** Tells those of one company who can be written to from those who cannot yet. It reads nothing but its arguments. */
const sortPeopleTool = internalTool({
  name: 'signals.sort_people',
  description: 'Sort the people of one company by whether they have a confirmed address.',
  input: SortInput,
  output: SortOutput,
  sideEffects: 'read',
  timeoutS: 5,
  handler: async (_invocation, args) => ok(sortPeople(args), { untrusted: true }),
})

function sortPeople({ company, companyId, names, emails, titles }: z.output<typeof SortInput>) {
  const people = names.map((name, at) => ({ name, email: emails[at] ?? null, title: titles[at] ?? null }))
  return {
    company,
    companyId,
    confirmed: people.flatMap(({ email, ...person }) => (email === null ? [] : [{ ...person, email }])),
    open: people.filter(({ email }) => email === null).map(({ name }) => ({ name, company, companyId })),
  }
}

/** `ref` is the name under which the enrichment answers. */
const Person = z.object({ ref: z.string(), name: z.string(), company: z.string(), companyId: z.string() })

/** A list for each company. */
const BatchInput = z.object({ open: z.array(z.array(Open).max(10)).max(50) })

const BatchOutput = z.object({
  /** For the vendor: no more than it needs. */
  contacts: z.array(z.object({ ref: z.string(), firstName: z.string(), lastName: z.string(), domain: z.string() })),
  people: z.array(Person),
  /** Not asked for: the batch is full, or the name has one part alone. */
  left: z.int(),
})

/** Makes one batch of whoever has no confirmed address. It reads nothing but its arguments. */
const batchContactsTool = internalTool({
  name: 'signals.batch_contacts',
  description: 'Make one batch for the enrichment, of at most 25 people without a confirmed address.',
  input: BatchInput,
  output: BatchOutput,
  sideEffects: 'read',
  timeoutS: 5,
  handler: async (_invocation, args) => ok(batchContacts(args), { untrusted: true }),
})

export function batchContacts({ open }: z.output<typeof BatchInput>): z.output<typeof BatchOutput> {
  const everybody = open.flat()
  const named = everybody.flatMap(({ name, ...rest }) => {
    const parts = partsOf(name)
    return parts === null ? [] : [{ name, ...rest, ...parts }]
  })
  const batch = named.slice(0, MAX_CONTACTS).map((person, at) => ({ ...person, ref: `p${at + 1}` }))
  return {
    contacts: batch.map(({ ref, firstName, lastName, company }) => ({
      ref,
      firstName,
      lastName,
      domain: company.domain,
    })),
    people: batch.map(({ ref, name, company, companyId }) => ({ ref, name, company: company.name, companyId })),
    left: everybody.length - batch.length,
  }
}

/** The last word is the family name: right often enough for a search, and never written to anybody. */
function partsOf(name: string): { readonly firstName: string; readonly lastName: string } | null {
  const words = name.trim().split(/\s+/)
  const lastName = words.pop() ?? ''
  return words.length === 0 ? null : { firstName: words.join(' '), lastName }
}

const MergeInput = z.object({
  people: z.array(Person).max(MAX_CONTACTS),
  found: z
    .array(
      z.object({
        ref: z.string(),
        email: z.string().nullable(),
        providerStatus: z.string().nullable(),
        confidence: z.string().nullable(),
        result: z.string(),
      }),
    )
    .max(MAX_CONTACTS),
})

const MergeOutput = z.array(Person.extend({ email: z.string() }))

/** Puts the addresses a batch found to the people it was asked about. It reads nothing but its arguments. */
const mergeContactsTool = internalTool({
  name: 'signals.merge_contacts',
  description:
    'Join people with the addresses an enrichment found for them; only addresses it calls verified are kept.',
  input: MergeInput,
  output: MergeOutput,
  sideEffects: 'read',
  timeoutS: 5,
  handler: async (_invocation, args) => ok(mergeContacts(args), { untrusted: true }),
})

export function mergeContacts({ people, found }: z.output<typeof MergeInput>): z.output<typeof MergeOutput> {
  return people.flatMap((person) => {
    const email = found.find(({ ref, confidence }) => ref === person.ref && confidence === 'verified')?.email
    return typeof email === 'string' ? [{ ...person, email }] : []
  })
}

export const contactTools = [sortPeopleTool, batchContactsTool, mergeContactsTool] as const
