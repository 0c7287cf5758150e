import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError, ValidationError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { provenanceOf } from '../provenance.ts'
import { line, prose } from '../text-input.ts'
import type { CompanyStore } from './companies.ts'
import { companyDomain } from './company-domain.ts'
import { CompanyShape, labelled, MAX_URL_LENGTH, searchLimit } from './shapes.ts'

const UPSERT = 'crm.upsert_company'
const UPDATE = 'crm.update_company'

const employees = z
  .string()
  .regex(/^[0-9]{1,9}(-[0-9]{1,9}|\+)?$/)
  .describe('A number or a range: 250, 51-200, 10001+.')

export function companyTools(companies: CompanyStore): ToolDeclaration[] {
  return [searchCompanies(companies), getCompany(companies), updateCompany(companies), upsertCompany(companies)]
}

function searchCompanies(companies: CompanyStore): ToolDeclaration {
  return internalTool({
    name: 'crm.search_companies',
    description:
      'Find companies already in the CRM by name, domain, industry, location or description. Every word has to match.',
    input: z.object({ query: line(100), limit: searchLimit }),
    output: z.array(CompanyShape),
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.company',
    maxResults: 50,
    handler: async ({ organizationId }, { query, limit }) => {
      const found = await companies.search({ organizationId, text: query, limit })
      return ok([...found], labelled(found))
    },
  })
}

function getCompany(companies: CompanyStore): ToolDeclaration {
  return internalTool({
    name: 'crm.get_company',
    description: 'Read one company of the CRM by id.',
    input: z.object({ id: z.uuid() }),
    output: CompanyShape,
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.company',
    handler: async ({ organizationId }, { id }) => {
      const company = await companies.get({ organizationId, id })
      if (company === null) throw noCompany(id)
      return ok(company, labelled([company]))
    },
  })
}

function upsertCompany(companies: CompanyStore): ToolDeclaration {
  return internalTool({
    name: UPSERT,
    description:
      'Add a company to the CRM, or update the one with the same domain. Fields that are left out stay as they are.',
    input: z.object({
      domain: line(MAX_URL_LENGTH).describe("The company's domain, or any address of its website: acme.com."),
      name: line(200),
      industry: line(200).optional(),
      employees: employees.optional(),
      location: line(200).optional(),
      description: prose(2_000).optional(),
    }),
    output: z.object({ id: z.uuid(), domain: z.string(), created: z.boolean() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, args) => {
      const domain = companyDomain(args.domain)
      if (domain === null) throw new ValidationError('domain is not a domain name such as acme.com')
      const { organizationId } = invocation
      const provenance = provenanceOf(invocation, UPSERT)
      return ok({ domain, ...(await companies.upsert({ organizationId, ...args, domain, provenance })) })
    },
  })
}

function updateCompany(companies: CompanyStore): ToolDeclaration {
  return internalTool({
    name: UPDATE,
    description:
      'Change a company of the CRM by id. Fields that are left out stay as they are; null empties one. The domain cannot change.',
    input: z.object({
      id: z.uuid(),
      name: line(200).optional(),
      industry: line(200).nullable().optional(),
      employees: employees.nullable().optional(),
      location: line(200).nullable().optional(),
      description: prose(2_000).nullable().optional(),
    }),
    output: z.object({ id: z.uuid() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, { id, ...changes }) => {
      if (Object.keys(changes).length === 0) throw new ValidationError('nothing to change was given')
      const { organizationId } = invocation
      const provenance = provenanceOf(invocation, UPDATE)
      if ((await companies.update({ organizationId, id, changes, provenance })) === 'not_found') throw noCompany(id)
      return ok({ id })
    },
  })
}

function noCompany(id: string): NotFoundError {
  return new NotFoundError(`there is no company ${id}`)
}
