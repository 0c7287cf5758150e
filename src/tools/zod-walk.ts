import type { z } from 'zod'
import { checksOf, defOf } from './zod-def.ts'
import type { ZodDef, ZodKind } from './zod-def.ts'
import { probeOverwrites, probeRepeats } from './zod-probe.ts'

/** Which half of a contract a schema declares. An input is parsed by Zod; an output is only described by it. */
export type ContractSide = 'input' | 'output'

export interface ZodDefect {
  readonly message: string
  readonly remedy: string
}

/** Kinds of schema that plain JSON can carry. Anything not listed is refused, so a kind that Zod adds later is too. */
const JSON_KINDS: ReadonlySet<ZodKind> = new Set<ZodKind>([
  'string',
  'number',
  'boolean',
  'null',
  'literal',
  'enum',
  'object',
  'array',
  'tuple',
  'record',
  'union',
  'intersection',
  'optional',
  'nullable',
  'nonoptional',
  'default',
  'prefault',
  'catch',
  'readonly',
  'lazy',
  'pipe',
  'template_literal',
  'any',
  'unknown',
  'never',
])

const TRANSFORM_REMEDY = 'transform the value in the handler; arguments are stored, shown and parsed again as they are'

/** Everything in a Zod schema that a stored contract cannot carry or that parses differently a second time. */
export function zodDefects(schema: z.core.$ZodType, side: ContractSide): ZodDefect[] {
  const defects: ZodDefect[] = []
  const seen = new Set<z.core.$ZodType>()
  const queue: { schema: z.core.$ZodType; path: string }[] = [{ schema, path: '' }]
  for (let entry = queue.pop(); entry !== undefined; entry = queue.pop()) {
    if (seen.has(entry.schema)) continue
    seen.add(entry.schema)
    const { path } = entry
    const def = defOf(entry.schema)
    defects.push(...nodeDefects(entry.schema, def, side).map((defect) => placed(defect, path)))
    queue.push(...partsOf(def).map((part) => ({ schema: part.schema, path: `${path}${part.step}` })))
  }
  return defects
}

function placed(defect: ZodDefect, path: string): ZodDefect {
  return path === '' ? defect : { ...defect, message: `${path}: ${defect.message}` }
}

function nodeDefects(schema: z.core.$ZodType, def: ZodDef, side: ContractSide): ZodDefect[] {
  if (isTransform(def)) return [{ message: 'a transform changes the value on the way', remedy: TRANSFORM_REMEDY }]
  if (!JSON_KINDS.has(def.type) && !(side === 'output' && def.type === 'date')) {
    return [{ message: `z.${def.type}() is not a JSON type`, remedy: jsonRemedy(def.type) }]
  }
  if (def.type === 'literal' && def.values.some((value) => typeof value === 'bigint' || value === undefined)) {
    return [{ message: 'a literal that JSON cannot carry', remedy: 'use text, numbers, booleans or null' }]
  }
  if (side === 'output') return []
  return [...asyncDefects(def), ...probeRepeats(def), ...probeOverwrites(schema)]
}

/** `.transform()`, `z.preprocess()`, codecs, `z.stringbool()` and `z.success()`. A pipe of plain schemas is none. */
function isTransform(def: ZodDef): boolean {
  if (def.type === 'transform' || def.type === 'success') return true
  return def.type === 'pipe' && ('transform' in def || 'reverseTransform' in def)
}

function jsonRemedy(kind: ZodKind): string {
  if (kind === 'date') return 'use z.iso.datetime()'
  if (kind === 'map') return 'use z.record()'
  if (kind === 'set') return 'use z.array()'
  if (kind === 'bigint') return 'use z.string() or z.int()'
  return 'use a type that JSON can carry'
}

/** Parsing happens before the decision and must not wait for anything. */
function asyncDefects(def: ZodDef): ZodDefect[] {
  const waits = checksOf(def).some(({ fn }) => typeof fn === 'function' && fn.constructor.name === 'AsyncFunction')
  return waits
    ? [{ message: 'an asynchronous refinement', remedy: 'check it in the handler, or declare a policy fact' }]
    : []
}

interface Part {
  readonly schema: z.core.$ZodType
  readonly step: string
}

/** The schemas inside a schema, with the step that leads to each. */
function partsOf(def: ZodDef): Part[] {
  if (isTransform(def)) return []
  if (def.type === 'object')
    return [...Object.entries(def.shape).flatMap(([key, field]) => part(`/${key}`, field)), ...part('/*', def.catchall)]
  if (def.type === 'array') return part('/*', def.element)
  if (def.type === 'tuple')
    return [...def.items.flatMap((item, index) => part(`/${index}`, item)), ...part('/*', def.rest)]
  if (def.type === 'record') return [...part('/(keys)', def.keyType), ...part('/*', def.valueType)]
  if (def.type === 'union') return def.options.flatMap((option) => part('', option))
  if (def.type === 'intersection') return [...part('', def.left), ...part('', def.right)]
  if (def.type === 'pipe') return [...part('', def.in), ...part('', def.out)]
  if (def.type === 'lazy') return part('', def.getter())
  return 'innerType' in def ? part('', def.innerType) : []
}

function part(step: string, schema: z.core.$ZodType | null | undefined): Part[] {
  return schema ? [{ schema, step }] : []
}
