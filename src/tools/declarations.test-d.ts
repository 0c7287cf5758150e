import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { internalTool, vendorTool } from './declarations.ts'
import type { ToolDeclaration } from './declarations.ts'
import type { HandlerOf } from './handler.ts'
import type { HandlerContext, ToolInvocation } from './invocation.ts'
import { ok } from './models.ts'
import { buildRegistry } from './registry.ts'

const Person = z.object({ id: z.string(), name: z.string(), title: z.string().optional() })
const Search = z.object({
  query: z.string().trim(),
  limit: z.int().default(10),
  stage: z.enum(['lead', 'won']).optional(),
})

/** A handler in a file of its own names its types; nothing is inferred from the declaration. */
const separate: HandlerOf<z.output<typeof Search>, z.output<typeof Person>[]> = {
  execute: async (_invocation, { query, limit }) => ok([{ id: String(limit), name: query }]),
  preview: async (_invocation, { query }) => `search for ${query}`,
}

test('an inline handler knows its arguments, its context and its answer without an annotation', () => {
  internalTool({
    name: 'crm.search_people',
    description: 'd',
    input: Search,
    output: z.array(Person),
    sideEffects: 'read',
    handler: async (invocation, args, context) => {
      expectTypeOf(invocation).toEqualTypeOf<ToolInvocation>()
      expectTypeOf(args.query).toEqualTypeOf<string>()
      expectTypeOf(args.limit).toEqualTypeOf<number>()
      expectTypeOf(args.stage).toEqualTypeOf<'lead' | 'won' | undefined>()
      expectTypeOf(context).toEqualTypeOf<HandlerContext>()
      return ok([{ id: 'p-1', name: args.query }])
    },
  })
})

test('an inline handler object is typed as well, its preview included', () => {
  const tool = vendorTool({
    name: 'email.send',
    description: 'd',
    input: z.object({ to: z.array(z.email()) }),
    output: z.object({ messageId: z.string() }),
    sideEffects: 'send',
    repeatable: false,
    connection: 'smtp',
    handler: {
      async execute(_invocation, { to }, { idempotencyKey }) {
        expectTypeOf(to).toEqualTypeOf<string[]>()
        expectTypeOf(idempotencyKey).toEqualTypeOf<string | null>()
        return ok({ messageId: to.join() })
      },
      async preview(_invocation, { to }, signal) {
        expectTypeOf(to).toEqualTypeOf<string[]>()
        expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
        return `one message to ${to.length}`
      },
    },
  })
  expectTypeOf(tool).toEqualTypeOf<ToolDeclaration<'email.send'>>()
})

test('a handler from a file of its own fits the schemas it was written for, and no others', () => {
  const options = { name: 'crm.search_people', description: 'd', input: Search, sideEffects: 'read' } as const
  const tool = internalTool({ ...options, output: z.array(Person), handler: separate })
  expectTypeOf(tool).toEqualTypeOf<ToolDeclaration<'crm.search_people'>>()
  // @ts-expect-error the handler answers people, the contract promises text
  internalTool({ ...options, output: z.string(), handler: separate })
  internalTool({
    ...options,
    output: z.array(Person),
    // @ts-expect-error a person has an id
    handler: async () => ok([{ name: 'Ada' }]),
  })
})

test('what only some side effects may declare is refused by the compiler', () => {
  const base = { description: 'd', input: z.object({}), output: z.null(), handler: async () => ok(null) } as const
  // @ts-expect-error a write says that it is not repeatable
  internalTool({ ...base, name: 'crm.write', sideEffects: 'write' })
  // @ts-expect-error and never that it is
  internalTool({ ...base, name: 'crm.write', sideEffects: 'write', repeatable: true })
  // @ts-expect-error a send names the account it sends from
  internalTool({ ...base, name: 'email.send', sideEffects: 'send', repeatable: false })
  // @ts-expect-error only a read is safe to retry inside the handler
  internalTool({ ...base, name: 'crm.write', sideEffects: 'write', repeatable: false, retry: 'safe' })
  // @ts-expect-error a read has no idempotency key to pass on
  internalTool({ ...base, name: 'crm.read', sideEffects: 'read', downstreamKey: true })
  const tool = internalTool({ ...base, name: 'crm.read', sideEffects: 'read', retry: 'safe' })
  expectTypeOf(tool).toEqualTypeOf<ToolDeclaration<'crm.read'>>()
})

test('a registry knows the names it holds', async () => {
  const base = { description: 'd', input: z.object({}), output: z.null(), handler: async () => ok(null) } as const
  const read = internalTool({ ...base, name: 'crm.read', sideEffects: 'read' })
  const write = internalTool({ ...base, name: 'crm.write', sideEffects: 'write', repeatable: false })
  expectTypeOf(read.spec.name).toEqualTypeOf<'crm.read'>()
  const registry = await buildRegistry([read, write])
  expectTypeOf(registry.names()).toEqualTypeOf<readonly ('crm.read' | 'crm.write')[]>()
})
