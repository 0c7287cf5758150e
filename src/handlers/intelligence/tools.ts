import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ValidationError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { companyDomain } from '../crm/company-domain.ts'
import { line, prose } from '../text-input.ts'
import { ATTRIBUTES, type IntelligenceStore } from './intelligence.ts'
import { publicSource } from './public-source.ts'

const CompanyFacts = z.object({
  domain: z.string(),
  facts: z.array(
    z.object({
      attribute: z.enum(ATTRIBUTES),
      value: z.string(),
      source: z.string(),
      observedAt: z.iso.datetime(),
    }),
  ),
})

const MAX_URL_LENGTH = 2_000

/** What all organizations know about companies. Failures of the store raise. */
export function intelligenceTools({ store }: { readonly store: IntelligenceStore }): ToolDeclaration[] {
  return [searchCompanies(store), recordObservation(store)]
}

function searchCompanies(store: IntelligenceStore): ToolDeclaration {
  return internalTool({
    name: 'intel.search_companies',
    description:
      'Find publicly known facts about companies, by domain or by words of the facts; every word has to match. Each fact names its source; sources may disagree.',
    input: z.object({ query: line(100), limit: z.int().min(1).max(20).default(5) }),
    output: z.array(CompanyFacts),
    sideEffects: 'read',
    timeoutS: 10,
    maxResults: 20,
    handler: async (_invocation, { query, limit }) => {
      const words = query.split(/\s+/).filter((word) => word !== '')
      const found = await store.search({ words, limit })
      const items = found.map(({ domain, facts }) => ({
        domain,
        facts: facts.map((fact) => ({ ...fact, observedAt: fact.observedAt.toISOString() })),
      }))
      // Written by runs of any organization, from pages of anybody.
      return ok(items, { untrusted: true })
    },
  })
}

function recordObservation(store: IntelligenceStore): ToolDeclaration {
  return internalTool({
    name: 'intel.record_observation',
    description:
      'Record a fact about a company that stands on a public page. Every organization can read it: record nothing of your own customers or correspondence.',
    input: z.object({
      domain: line(MAX_URL_LENGTH).describe("The company's domain, or any address of its website: acme.com."),
      attribute: z.enum(ATTRIBUTES),
      value: prose(1_000),
      source: line(MAX_URL_LENGTH).describe('Web address of the page; query and fragment are left out.'),
    }),
    output: z.object({ domain: z.string(), created: z.boolean() }),
    sideEffects: 'write',
    // The arguments leave the organization.
    egress: true,
    timeoutS: 10,
    repeatable: false,
    handler: async (_invocation, { domain: given, source: page, attribute, value }) => {
      const domain = companyDomain(given)
      if (domain === null) throw new ValidationError('domain is not a domain name such as acme.com')
      const source = publicSource(page)
      if (source === null) throw new ValidationError('source is not the address of a public web page')
      return ok({ domain, ...(await store.record({ domain, attribute, value, source })) })
    },
  })
}
