import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ConflictError, NotFoundError, ValidationError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { ADDRESS_PATTERN, MAX_ADDRESS_LENGTH } from '../address.ts'
import { provenanceOf } from '../provenance.ts'
import { line } from '../text-input.ts'
import type { PeopleStore } from './people.ts'
import { profileUrl } from './profile-url.ts'
import { labelled, MAX_URL_LENGTH, PersonShape, searchLimit } from './shapes.ts'

const UPSERT = 'crm.upsert_person'
const UPDATE = 'crm.update_person'

const email = z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN)
const linkedinUrl = line(MAX_URL_LENGTH).describe('Address of a LinkedIn profile, in any spelling.')
const companyId = z.uuid().describe('Id of a company in the CRM.')

export function personTools(people: PeopleStore): ToolDeclaration[] {
  return [searchPeople(people), getPerson(people), updatePerson(people), upsertPerson(people)]
}

function searchPeople(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: 'crm.search_people',
    description:
      'Find people already in the CRM by name, company, title, location, email address or profile. Every word has to match.',
    input: z.object({ query: line(100), limit: searchLimit }),
    output: z.array(PersonShape),
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.person',
    maxResults: 50,
    handler: async ({ organizationId }, { query, limit }) => {
      const found = await people.search({ organizationId, text: query, limit })
      return ok([...found], labelled(found))
    },
  })
}

function getPerson(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: 'crm.get_person',
    description: 'Read one person of the CRM by id.',
    input: z.object({ id: z.uuid() }),
    output: PersonShape,
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.person',
    handler: async ({ organizationId }, { id }) => {
      const person = await people.get({ organizationId, id })
      if (person === null) throw noPerson(id)
      return ok(person, labelled([person]))
    },
  })
}

function upsertPerson(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: UPSERT,
    description:
      'Add a person to the CRM, or update the one with the same email address or, where no address is known, the same LinkedIn profile. Give at least one of the two. Fields that are left out stay as they are.',
    input: z.object({
      email: email.optional(),
      linkedinUrl: linkedinUrl.optional(),
      name: line(200),
      company: line(200).optional(),
      companyId: companyId.optional(),
      title: line(200).optional(),
      location: line(200).optional(),
    }),
    output: z.object({ id: z.uuid(), created: z.boolean() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, args) => {
      if (args.email === undefined && args.linkedinUrl === undefined)
        throw new ValidationError('a person needs an email address or a LinkedIn profile')
      const { organizationId } = invocation
      const identified = { ...args, linkedinUrl: canonical(args.linkedinUrl) }
      const outcome = await people.upsert({
        organizationId,
        ...identified,
        provenance: provenanceOf(invocation, UPSERT),
      })
      if (outcome.kind === 'no_company') throw noCompany(args.companyId)
      if (outcome.kind === 'other_person')
        throw new ConflictError(
          `the profile belongs to person ${outcome.id}, who is not the one with this address; leave the profile out, or change that person`,
        )
      return ok({ id: outcome.id, created: outcome.created })
    },
  })
}

function updatePerson(people: PeopleStore): ToolDeclaration {
  return internalTool({
    name: UPDATE,
    description:
      'Change a person of the CRM by id. Fields that are left out stay as they are; null empties one. Fails when another person has the email address or the profile.',
    input: z.object({
      id: z.uuid(),
      name: line(200).optional(),
      email: email.optional(),
      linkedinUrl: linkedinUrl.optional(),
      company: line(200).nullable().optional(),
      companyId: companyId.nullable().optional(),
      title: line(200).nullable().optional(),
      location: line(200).nullable().optional(),
    }),
    output: z.object({ id: z.uuid() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, { id, ...given }) => {
      if (Object.keys(given).length === 0) throw new ValidationError('nothing to change was given')
      const { organizationId } = invocation
      const changes = { ...given, linkedinUrl: canonical(given.linkedinUrl) }
      const outcome = await people.update({
        organizationId,
        id,
        changes,
        provenance: provenanceOf(invocation, UPDATE),
      })
      if (outcome.kind === 'no_company') throw noCompany(given.companyId)
      if (outcome.kind === 'not_found') throw noPerson(id)
      if (outcome.kind === 'taken') throw new ConflictError('another person has this address or this profile')
      return ok({ id })
    },
  })
}

/** The one spelling of a profile, of any that was given. */
function canonical(given: string | undefined): string | undefined {
  if (given === undefined) return undefined
  const url = profileUrl(given)
  if (url === null)
    throw new ValidationError('linkedinUrl is not the address of a LinkedIn profile (linkedin.com/in/…)')
  return url
}

function noPerson(id: string): NotFoundError {
  return new NotFoundError(`there is no person ${id}`)
}

function noCompany(id: string | null | undefined): NotFoundError {
  return new NotFoundError(`there is no company ${id}`)
}
