import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { internalTool, vendorTool } from './declarations.ts'
import type { ToolDeclaration } from './declarations.ts'
import type { FactResolver } from './handler.ts'
import { ModelNameCollision, modelNames } from './model-names.ts'
import { MAX_MODEL_TOOL_NAME_LENGTH, modelToolName, ok, PLATFORM_OUTPUT_BYTES, STEP_BUDGET_S } from './models.ts'
import type { ToolSpec } from './models.ts'
import { RegistryError } from './registry-faults.ts'
import type { RegistryFault } from './registry-faults.ts'
import { buildRegistry, UnknownToolError } from './registry.ts'
import type { RegistryOptions } from './registry.ts'

type Changes = Partial<Record<keyof Parameters<typeof internalTool>[0], unknown>>

/** A sound declaration with the given options put over it: what code without types could hand to the factory. */
function tool(name: string, changes: Changes = {}): ToolDeclaration {
  const options = {
    name,
    description: 'Does one thing.',
    input: z.object({ ids: z.array(z.string()).optional(), filter: z.object({ ids: z.array(z.string()) }).optional() }),
    output: z.array(z.object({ id: z.string() })),
    sideEffects: 'read',
    handler: async () => ok([]),
    ...changes,
  }
  return internalTool(options as Parameters<typeof internalTool>[0])
}
const write: Changes = { sideEffects: 'write', repeatable: false }
const send: Changes = { sideEffects: 'send', repeatable: false, connection: 'smtp' }
const fact = (name: string, more: Partial<FactResolver> = {}): FactResolver => ({
  name,
  type: 'bool',
  resolve: async () => true,
  ...more,
})

async function faultsOf(
  declarations: readonly ToolDeclaration[],
  options?: RegistryOptions,
): Promise<readonly RegistryFault[]> {
  try {
    await buildRegistry(declarations, options)
    return []
  } catch (error) {
    if (error instanceof RegistryError) return error.faults
    throw error
  }
}
const fieldsOf = async (name: string, changes: Changes, options?: RegistryOptions): Promise<string[]> =>
  (await faultsOf([tool(name, changes)], options)).map(({ field }) => field)

describe('a sound set of declarations', () => {
  test('becomes a registry that answers what a tool is', async () => {
    const registry = await buildRegistry([tool('crm.read'), tool('crm.write', write), tool('email.send', send)])
    expect(registry.names()).toEqual(['crm.read', 'crm.write', 'email.send'])
    expect(registry.get('email.send')).toMatchObject({ name: 'email.send', version: 1, sideEffects: 'send' })
    expect(registry.resolve(['email.send', 'crm.read']).map(({ name }) => name)).toEqual(['email.send', 'crm.read'])
    expect(registry.declaration('crm.write')?.spec.name).toBe('crm.write')
    expect(Object.isFrozen(registry.get('crm.read'))).toBe(true)
  })

  test('finds nothing under names that every object has', async () => {
    const registry = await buildRegistry([tool('crm.read')])
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty', '', 'crm.read ']) {
      expect(registry.get(name)).toBeUndefined()
      expect(registry.declaration(name)).toBeUndefined()
      expect(registry.facts.get(name)).toBeUndefined()
    }
  })

  test('names every unknown tool and what was probably meant', async () => {
    const registry = await buildRegistry([tool('crm.search_people'), tool('email.send', send)])
    const resolving = () => registry.resolve(['crm.serch_people', 'email.send', 'weather.now'])
    expect(resolving).toThrow(UnknownToolError)
    expect(resolving).toThrow(
      '"crm.serch_people" is not registered; did you mean crm.search_people?; "weather.now" is not registered',
    )
  })

  test('takes each version from the stored function of the hash, once per tool', async () => {
    const asked: string[] = []
    const stored = new Map<string, number>()
    const versions = {
      async versionOf(name: string, schemaHash: string, spec: Omit<ToolSpec, 'version'>): Promise<number> {
        asked.push(`${name} ${spec.schemaHash === schemaHash}`)
        const version = stored.get(schemaHash) ?? stored.size + 1
        stored.set(schemaHash, version)
        return version
      },
    }
    const first = await buildRegistry([tool('crm.read')], { versions })
    const changed = await buildRegistry([tool('crm.read', { output: z.array(z.string()) })], { versions })
    const again = await buildRegistry([tool('crm.read')], { versions })
    expect([first, changed, again].map((registry) => registry.get('crm.read')?.version)).toEqual([1, 2, 1])
    expect(asked).toEqual(Array.from({ length: 3 }, () => 'crm.read true'))
  })

  test('R38 every stored name keeps its dot; only the model reads a derived one', async () => {
    const registry = await buildRegistry([tool('email.send', send)])
    expect(registry.names()).toEqual(['email.send'])
    expect(registry.get('email.send')?.binding).toEqual({ handlerKey: 'email.send' })
    expect(registry.get('email_send')).toBeUndefined()
  })
})

describe('R39 registry validation catches drift before run time', () => {
  test.each<[name: string, changes: Changes, field: string]>([
    ['Email.Send', {}, 'name'],
    ['email', {}, 'name'],
    ['constructor.toString', {}, 'name'],
    ['__proto__.x', {}, 'name'],
    ['a.b.c', {}, 'name'],
    ['mcp.slack', {}, 'name'],
    ['crm.read', { description: '  ' }, 'description'],
    ['crm.read', { description: 'x'.repeat(5000) }, 'description'],
    ['crm.read', { sideEffects: 'delete' }, 'sideEffects'],
    ['crm.read', { handler: undefined }, 'handler'],
    ['crm.read', { handler: { run: () => 1 } }, 'handler'],
    ['crm.read', { handlerKey: '' }, 'binding'],
    ['crm.read', { approvalPreview: true }, 'approvalPreview'],
    [
      'crm.read',
      { handler: { execute: async () => ok([]), preview: 'text' }, approvalPreview: true },
      'approvalPreview',
    ],
    ['crm.read', { connection: '' }, 'connection'],
    ['email.send', { ...send, connection: undefined }, 'connection'],
    ['crm.read', { retry: 'always' }, 'retry'],
    ['crm.write', { ...write, retry: 'safe' }, 'retry'],
    ['crm.read', { onUnknown: 'ask' }, 'onUnknown'],
    ['crm.write', { ...write, onUnknown: 'guess' }, 'onUnknown'],
    ['crm.read', { downstreamKey: true }, 'downstreamKey'],
    ['crm.read', { timeoutS: 0 }, 'timeoutS'],
    ['crm.read', { timeoutS: Number.NaN }, 'timeoutS'],
    ['crm.read', { timeoutS: STEP_BUDGET_S + 1 }, 'timeoutS'],
    ['crm.read', { maxResults: 0 }, 'maxResults'],
    ['crm.read', { maxResults: 2.5 }, 'maxResults'],
    ['crm.read', { maxResults: 5, output: z.object({ rows: z.array(z.string()) }) }, 'maxResults'],
    ['crm.read', { maxOutputBytes: -1 }, 'maxOutputBytes'],
    ['crm.read', { maxOutputBytes: PLATFORM_OUTPUT_BYTES + 1 }, 'maxOutputBytes'],
    ['crm.read', { maxBatchSize: 0, batchArgument: 'ids' }, 'maxBatchSize'],
    ['crm.read', { itemKind: 'a person' }, 'itemKind'],
    ['crm.read', { input: z.object({ at: z.date() }) }, 'input'],
    ['crm.read', { output: z.bigint() }, 'output'],
    ['crm.read', { output: z.string().transform(Number) }, 'output'],
    ['crm.read', { policyFacts: ['nobody_knows'] }, 'policyFacts'],
    ['crm.read', { policyFacts: ['known', 'known'] }, 'policyFacts'],
    ['crm.read', { policyFacts: ['constructor'] }, 'policyFacts'],
  ])('%s with %o is refused for its %s', async (name, changes, field) => {
    expect(await fieldsOf(name, changes, { facts: [fact('known')] })).toEqual([field])
  })

  test.each(['principal', 'run', 'arguments', 'tool'])(
    'a fact may not hide %s, which every rule reads',
    async (name) => {
      expect(await fieldsOf('crm.read', { policyFacts: [name] })).toEqual(['policyFacts'])
      expect(await faultsOf([tool('crm.read')], { facts: [fact(name)] })).toMatchObject([
        { tool: `fact ${name}`, field: 'name' },
      ])
    },
  )

  test('fact resolvers are checked too', async () => {
    const facts = [
      fact('no good'),
      fact('odd', { type: 'set' as 'list' }),
      fact('twice'),
      fact('twice'),
      fact('idle', { resolve: undefined as never }),
    ]
    expect((await faultsOf([], { facts })).map(({ tool: where, field }) => [where, field])).toEqual([
      ['fact no good', 'name'],
      ['fact odd', 'type'],
      ['fact twice', 'name'],
      ['fact idle', 'resolve'],
    ])
    const registry = await buildRegistry([tool('crm.read', { policyFacts: ['fine'] })], { facts: [fact('fine')] })
    expect(registry.facts.get('fine')?.type).toBe('bool')
  })

  test('T20 batch argument and batch size appear together, and the argument names a top-level array', async () => {
    expect(await fieldsOf('crm.read', { batchArgument: 'ids' })).toEqual(['maxBatchSize'])
    expect(await fieldsOf('crm.read', { maxBatchSize: 5 })).toEqual(['batchArgument'])
    for (const batchArgument of ['filter', 'filter.ids', 'missing', 'constructor', '']) {
      expect(await fieldsOf('crm.read', { batchArgument, maxBatchSize: 5 })).toEqual(['batchArgument'])
    }
    expect(await fieldsOf('crm.read', { batchArgument: 'ids', maxBatchSize: 5 })).toEqual([])
    const Ids = z.array(z.string()).meta({ id: 'RegistryTestIds' })
    const shared = z.object({ ids: Ids, more: Ids.default([]) })
    expect(await fieldsOf('crm.read', { input: shared, batchArgument: 'ids', maxBatchSize: 5 })).toEqual([])
    const loose = z.object({ ids: z.union([z.array(z.string()), z.string()]) })
    expect(await fieldsOf('crm.read', { input: loose, batchArgument: 'ids', maxBatchSize: 5 })).toEqual([
      'batchArgument',
    ])
  })

  test('T22 an output limit of one byte does not build; two do', async () => {
    expect(await fieldsOf('crm.read', { maxOutputBytes: 1 })).toEqual(['maxOutputBytes'])
    expect(await fieldsOf('crm.read', { maxOutputBytes: 2 })).toEqual([])
  })

  test('T54 drift of schema or handler is refused when the registry is built, before anything is published', async () => {
    let writes = 0
    const moving = z.object({
      at: z
        .string()
        .default('')
        .meta({
          get title() {
            return `t${(writes += 1)}`
          },
        }),
    })
    expect(await fieldsOf('crm.read', { input: moving })).toEqual(['input'])
    expect(await fieldsOf('crm.read', { input: z.object({ code: z.string().regex(/^a$/u) }) })).toEqual([])
    const sound = tool('crm.read')
    const broken = { ...sound, spec: { ...sound.spec, outputSchema: { type: 'strin' } } }
    expect(await faultsOf([broken])).toMatchObject([{ field: 'output' }, { field: 'output' }])
    const orphan = { ...sound, handler: {} as ToolDeclaration['handler'] }
    expect(await faultsOf([orphan])).toMatchObject([{ field: 'handler' }])
  })

  test('T59 repeatable: true does not register', async () => {
    expect(await fieldsOf('crm.write', { ...write, repeatable: true })).toEqual(['repeatable'])
    expect(await fieldsOf('crm.read', { repeatable: true })).toEqual(['repeatable'])
    expect(await fieldsOf('crm.read', { repeatable: false })).toEqual(['repeatable'])
  })

  test('T61 a send does not register with repeatable: true', async () => {
    const faults = await faultsOf([tool('email.send', { ...send, repeatable: true })])
    expect(faults).toMatchObject([{ tool: 'email.send', field: 'repeatable' }])
  })

  test('R43 every write and send says repeatable: false; silence is refused', async () => {
    expect(await fieldsOf('crm.write', { sideEffects: 'write' })).toEqual(['repeatable'])
    expect(await fieldsOf('email.send', { ...send, repeatable: undefined })).toEqual(['repeatable'])
    expect(await fieldsOf('crm.write', write)).toEqual([])
    expect(await fieldsOf('crm.read', {})).toEqual([])
  })

  test('T67 two names that derive one model name are refused', async () => {
    const faults = await faultsOf([tool('crm.search_people'), tool('crm_search.people')])
    expect(faults).toMatchObject([
      {
        tool: 'crm_search.people',
        field: 'name',
        message: 'would reach the model as crm_search_people, as crm.search_people does',
      },
    ])
  })

  test('T68 a derived name over 64 characters is refused, not cut', async () => {
    const fitting = `crm.${'a'.repeat(MAX_MODEL_TOOL_NAME_LENGTH - 4)}`
    expect(await fieldsOf(fitting, {})).toEqual([])
    expect(await fieldsOf(`${fitting}a`, {})).toEqual(['name'])
  })

  test('one name or one handler key twice is refused; nothing is shadowed', async () => {
    expect(await faultsOf([tool('crm.read'), tool('crm.read')])).toMatchObject([
      { tool: 'crm.read', field: 'name', message: 'is declared twice' },
    ])
    const shared = [tool('crm.read', { handlerKey: 'k' }), tool('crm.list', { handlerKey: 'k' })]
    expect(await faultsOf(shared)).toMatchObject([
      { tool: 'crm.list', field: 'handlerKey', message: 'k is taken by crm.read' },
    ])
  })

  test('all faults of all tools arrive in one error that a person can read', async () => {
    const declarations = [
      tool('Bad Name\n', { timeoutS: 999, description: '' }),
      tool('email.send', { sideEffects: 'send', maxOutputBytes: 1 }),
      vendorTool({
        name: 'research.search',
        description: 'd',
        input: z.object({}),
        output: z.null(),
        sideEffects: 'read',
        handler: async () => ok(null),
      }),
    ]
    const faults = await faultsOf(declarations)
    expect(faults.map(({ tool: name, field }) => [name, field])).toEqual([
      ['Bad Name\n', 'name'],
      ['Bad Name\n', 'description'],
      ['Bad Name\n', 'timeoutS'],
      ['email.send', 'connection'],
      ['email.send', 'repeatable'],
      ['email.send', 'maxOutputBytes'],
    ])
    expect(new RegistryError(faults).message.split('\n').slice(0, 6)).toEqual([
      '6 faults in 2 declarations; nothing was registered',
      '',
      String.raw`  Bad Name\n`,
      '    name: is not a valid platform name',
      '      use domain.verb: lower case letters, digits and underscores, one dot',
      '    description: is empty',
    ])
  })

  test('a broken set asks for no version', async () => {
    const versions = { versionOf: async (): Promise<number> => expect.unreachable('a broken tool was stored') }
    expect(await faultsOf([tool('crm.read'), tool('bad')], { versions })).toHaveLength(1)
  })
})

describe('names a model reads', () => {
  test('T66 a dotted name reaches the model derived and maps back to the dotted one', () => {
    expect(modelToolName('email.send')).toBe('email_send')
    expect(modelToolName('mcp.slack-eu.send message')).toBe('mcp_slack-eu_send_message')
    const names = modelNames([{ name: 'email.send' }, { name: 'crm.search_people' }])
    expect(names.get('email_send')).toBe('email.send')
    expect(names.get('crm_search_people')).toBe('crm.search_people')
    expect(names.get('constructor')).toBeUndefined()
  })

  test('T67 a segment refuses a collision again, because it reads a snapshot and not the registry', () => {
    const colliding = [{ name: 'crm.search_people' }, { name: 'crm_search.people' }]
    expect(() => modelNames(colliding)).toThrow(ModelNameCollision)
    expect(() => modelNames(colliding)).toThrow('crm.search_people and crm_search.people')
    expect(() => modelNames([{ name: 'a.b' }, { name: 'a.b' }])).toThrow(ModelNameCollision)
  })

  test('T68 a segment refuses a name that no provider accepts', () => {
    expect(() => modelNames([{ name: `mcp.${'x'.repeat(70)}` }])).toThrow('74 characters')
  })
})

describe('a call that settles later', () => {
  const paid = { sideEffects: 'write', repeatable: false, metered: true, settles: 'later' } as const
  const vendor = (changes: Changes): ToolDeclaration => {
    const options = { name: 'x.submit', description: 'Submits.', input: z.object({}), output: z.array(z.string()) }
    const handler = async () => ok([])
    return vendorTool({ ...options, handler, ...paid, ...changes } as Parameters<typeof vendorTool>[0])
  }

  test('is a metered write to a vendor', async () => {
    expect(await faultsOf([vendor({})])).toEqual([])
  })

  test.each([
    ['a tool of the organization itself', tool('x.submit', paid)],
    ['a read', vendor({ sideEffects: 'read', repeatable: undefined })],
    ['a send', vendor({ sideEffects: 'send', connection: 'smtp' })],
    ['a write that is not metered', vendor({ metered: false })],
    ['any other word', vendor({ settles: 'never' })],
  ])('is not %s', async (_says, declaration) => {
    expect((await faultsOf([declaration])).map(({ field }) => field)).toEqual(['settles'])
  })
})
