import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ConflictError, NotFoundError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { provenanceOf } from '../provenance.ts'
import { line } from '../text-input.ts'
import type { ListStore } from './lists.ts'
import { CompanyShape, labelled, ListShape, PersonShape, searchLimit } from './shapes.ts'

const CREATE = 'crm.create_list'
const ADD = 'crm.add_to_list'
const REMOVE = 'crm.remove_from_list'

/** Members that one call adds or removes. */
export const MAX_MEMBERS = 100

const memberIds = z.array(z.uuid()).min(1).describe(`Ids of people or of companies, at most ${MAX_MEMBERS}.`)

export function listTools(lists: ListStore): ToolDeclaration[] {
  return [searchLists(lists), createList(lists), getList(lists), addToList(lists), removeFromList(lists)]
}

function searchLists(lists: ListStore): ToolDeclaration {
  return internalTool({
    name: 'crm.search_lists',
    description:
      'Find lists of people or companies by name or description; without a query, any. Every word has to match.',
    input: z.object({ query: line(100).optional(), limit: searchLimit }),
    output: z.array(ListShape),
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'crm.list',
    maxResults: 50,
    handler: async ({ organizationId }, { query, limit }) => {
      const found = await lists.search({ organizationId, text: query ?? null, limit })
      return ok([...found], labelled(found))
    },
  })
}

function createList(lists: ListStore): ToolDeclaration {
  return internalTool({
    name: CREATE,
    description:
      'Make a list of people or of companies. When there is one of that name, it stays as it is and its id is answered.',
    input: z.object({
      name: line(200),
      kind: z.enum(['person', 'company']).describe('What its members are.'),
      description: line(500).optional(),
    }),
    output: z.object({ id: z.uuid(), created: z.boolean() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, args) => {
      const { organizationId } = invocation
      const outcome = await lists.create({ organizationId, ...args, provenance: provenanceOf(invocation, CREATE) })
      if (outcome.kind === 'other_kind')
        throw new ConflictError(`list ${outcome.id} has this name and is not a list of this kind; choose another name`)
      return ok({ id: outcome.id, created: outcome.created })
    },
  })
}

function getList(lists: ListStore): ToolDeclaration {
  return internalTool({
    name: 'crm.get_list',
    description:
      'Read a list and a page of its members. `size` counts all members; go on with `after` set to `next` until it is null.',
    input: z.object({
      id: z.uuid(),
      after: z.uuid().optional().describe('`next` of the page before.'),
      limit: z.int().min(1).max(50).default(25),
    }),
    output: ListShape.extend({
      size: z.int(),
      people: z.array(PersonShape),
      companies: z.array(CompanyShape),
      next: z.uuid().nullable(),
    }),
    sideEffects: 'read',
    timeoutS: 10,
    handler: async ({ organizationId }, { id, after, limit }) => {
      const list = await lists.get({ organizationId, id, after: after ?? null, limit })
      if (list === null) throw noList(id)
      const answer = { ...list, people: [...list.people], companies: [...list.companies] }
      return ok(answer, labelled([list, ...list.people, ...list.companies]))
    },
  })
}

function addToList(lists: ListStore): ToolDeclaration {
  return internalTool({
    name: ADD,
    description:
      'Put people or companies on a list of their kind. Who is on it already stays. `missing` are ids that name none; the others are on the list.',
    input: z.object({ listId: z.uuid(), memberIds }),
    output: z.object({ added: z.int(), missing: z.array(z.uuid()) }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    batchArgument: 'memberIds',
    maxBatchSize: MAX_MEMBERS,
    handler: async (invocation, args) => {
      const { organizationId } = invocation
      const outcome = await lists.add({ organizationId, ...args, provenance: provenanceOf(invocation, ADD) })
      if (outcome.kind === 'no_list') throw noList(args.listId)
      return ok({ added: outcome.added, missing: [...outcome.missing] })
    },
  })
}

function removeFromList(lists: ListStore): ToolDeclaration {
  return internalTool({
    name: REMOVE,
    description: 'Take people or companies off a list. They stay in the CRM; who is not on the list stays off.',
    input: z.object({ listId: z.uuid(), memberIds }),
    output: z.object({ removed: z.int() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    batchArgument: 'memberIds',
    maxBatchSize: MAX_MEMBERS,
    handler: async (invocation, args) => {
      const { organizationId } = invocation
      const outcome = await lists.remove({ organizationId, ...args, provenance: provenanceOf(invocation, REMOVE) })
      if (outcome.kind === 'no_list') throw noList(args.listId)
      return ok({ removed: outcome.removed })
    },
  })
}

function noList(id: string): NotFoundError {
  return new NotFoundError(`there is no list ${id}`)
}
