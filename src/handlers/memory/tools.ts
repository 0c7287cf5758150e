import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { NotFoundError } from '../../tools/errors.ts'
import { ok } from '../../tools/models.ts'
import { provenanceOf } from '../provenance.ts'
import { line, prose } from '../text-input.ts'
import { MEMORY_KINDS, type MemoryStore } from './memories.ts'

const REMEMBER = 'memory.remember'

const MemoryShape = z.object({
  id: z.uuid(),
  kind: z.enum(MEMORY_KINDS),
  subject: z.string(),
  text: z.string(),
  rememberedAt: z.iso.datetime(),
  trusted: z.boolean(),
})

const subject = line(200).describe('Whom or what it is about: a name, an address, a domain. Case does not matter.')

/** What agents of an organization keep from one run to the next. Failures of the store raise. */
export function memoryTools({ memories }: { readonly memories: MemoryStore }): ToolDeclaration[] {
  return [remember(memories), search(memories), forget(memories)]
}

function remember(memories: MemoryStore): ToolDeclaration {
  return internalTool({
    name: REMEMBER,
    description:
      'Keep an observation or a preference for later runs. Saying the same about the same subject again changes nothing. Forget what is no longer true.',
    input: z.object({
      kind: z
        .enum(MEMORY_KINDS)
        .describe('observation: something found out. preference: how somebody wants things done.'),
      subject,
      text: prose(2_000),
    }),
    output: z.object({ id: z.uuid(), created: z.boolean() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async (invocation, args) => {
      const { organizationId } = invocation
      return ok(await memories.remember({ organizationId, ...args, provenance: provenanceOf(invocation, REMEMBER) }))
    },
  })
}

function search(memories: MemoryStore): ToolDeclaration {
  return internalTool({
    name: 'memory.search',
    description:
      'Find what was remembered, the newest first: by words, all of which have to match, by subject, by kind, or simply the newest.',
    input: z.object({
      query: line(100).optional(),
      subject: subject.optional(),
      kind: z.enum(MEMORY_KINDS).optional(),
      limit: z.int().min(1).max(50).default(10),
    }),
    output: z.array(MemoryShape),
    sideEffects: 'read',
    timeoutS: 10,
    itemKind: 'memory.item',
    maxResults: 50,
    handler: async ({ organizationId }, { query, subject, kind, limit }) => {
      const found = await memories.search({
        organizationId,
        text: query ?? null,
        subject: subject ?? null,
        kind: kind ?? null,
        limit,
      })
      const items = found.map((memory) => ({ ...memory, rememberedAt: memory.rememberedAt.toISOString() }))
      // One untrusted row is enough: a model reads the answer as a whole.
      return ok(items, { untrusted: found.some(({ trusted }) => !trusted) })
    },
  })
}

function forget(memories: MemoryStore): ToolDeclaration {
  return internalTool({
    name: 'memory.forget',
    description: 'Forget one memory by id.',
    input: z.object({ id: z.uuid() }),
    output: z.object({ id: z.uuid() }),
    sideEffects: 'write',
    timeoutS: 10,
    repeatable: false,
    handler: async ({ organizationId }, { id }) => {
      if ((await memories.forget({ organizationId, id })) === 'not_found')
        throw new NotFoundError(`there is no memory ${id}`)
      return ok({ id })
    },
  })
}
