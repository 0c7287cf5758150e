import { z } from 'zod'
import { canonicalJson } from './canonical.ts'
import type { JsonObject } from './json.ts'
import { checksOf, defOf } from './zod-def.ts'
import { zodDefects } from './zod-walk.ts'
import type { ContractSide } from './zod-walk.ts'

/** A fault of a declared schema: what is wrong with it and what to write instead. */
export interface SchemaDefect {
  readonly field: ContractSide
  readonly message: string
  readonly remedy: string
}

export interface EmittedSchema {
  readonly schema: JsonObject
  readonly defects: readonly SchemaDefect[]
}

/**
 * The JSON Schema of a Zod schema, as the model reads it. An input refuses unknown keys at every level, because a key
 * that is silently dropped is a request that was not understood; an output is emitted as it leaves the handler, where a
 * date is its ISO text. Never throws: what cannot be expressed is a defect, reported when the registry is built.
 */
export function emitSchema(schema: z.core.$ZodType, field: ContractSide): EmittedSchema {
  const defects = zodDefects(schema, field).map((defect): SchemaDefect => ({ field, ...defect }))
  try {
    const emitted: unknown = z.toJSONSchema(schema, {
      io: field,
      unrepresentable: ({ zodSchema }) =>
        field === 'output' && defOf(zodSchema).type === 'date' ? DATE_TEXT : 'throw',
      override: ({ zodSchema, jsonSchema }) => {
        if (field === 'input') closeObject(zodSchema, jsonSchema)
        dropFlaggedPatterns(zodSchema, jsonSchema)
      },
    })
    const plain = JSON.parse(JSON.stringify(emitted)) as JsonObject
    canonicalJson(plain)
    return { schema: deepFreeze(plain), defects }
  } catch (error) {
    // The walk has named what it knows; Zod's own words are for what it does not.
    if (defects.length > 0) return { schema: {}, defects }
    const message = `cannot be written as JSON Schema: ${error instanceof Error ? error.message.slice(0, 300) : 'unknown reason'}`
    return { schema: {}, defects: [{ field, message, remedy: 'use types that JSON can carry' }] }
  }
}

const DATE_TEXT = { type: 'string', format: 'date-time' } as const

function closeObject(zodSchema: z.core.$ZodTypes, jsonSchema: z.core.JSONSchema.BaseSchema): void {
  const def = defOf(zodSchema)
  if (def.type === 'object' && def.catchall === undefined) jsonSchema.additionalProperties = false
}

/** JSON Schema has no flags: the text of a case-insensitive pattern would refuse what Zod, which runs it, accepts. */
function dropFlaggedPatterns(zodSchema: z.core.$ZodTypes, jsonSchema: z.core.JSONSchema.BaseSchema): void {
  const flagged = flaggedPatterns(zodSchema)
  if (flagged.size === 0) return
  const isFlagged = (pattern: unknown): boolean => typeof pattern === 'string' && flagged.has(pattern)
  if (isFlagged(jsonSchema.pattern)) delete jsonSchema.pattern
  if (jsonSchema.allOf === undefined) return
  const kept = jsonSchema.allOf.filter((part) => typeof part === 'boolean' || !isFlagged(part.pattern))
  if (kept.length === 0) delete jsonSchema.allOf
  else jsonSchema.allOf = kept
}

function flaggedPatterns(zodSchema: z.core.$ZodTypes): Set<string> {
  const sources = new Set<string>()
  const note = (candidate: unknown): void => {
    if (candidate instanceof RegExp && /[ims]/.test(candidate.flags)) sources.add(candidate.source)
  }
  const def = defOf(zodSchema)
  if ('pattern' in def) note(def.pattern)
  for (const check of checksOf(def)) note(check['pattern'])
  return sources
}

/** Specs travel into runs, snapshots and adapters; none of them may change what the others read. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const child of Object.values(value)) deepFreeze(child)
  return Object.freeze(value)
}

export type ParseVerdict =
  | { readonly kind: 'parsed'; readonly value: unknown }
  | { readonly kind: 'invalid'; readonly message: string }

/** @throws whatever a refinement throws, and when one is asynchronous: both are defects of the tool */
export function parseWith(schema: z.core.$ZodType, value: unknown): ParseVerdict {
  const result = z.safeParse(schema, value)
  if (result.success) return { kind: 'parsed', value: result.data }
  const issue = result.error.issues[0]
  const path = issue === undefined || issue.path.length === 0 ? 'the value' : `/${issue.path.map(String).join('/')}`
  return { kind: 'invalid', message: `${path.slice(0, 160)}: ${issue?.message ?? 'is not valid'}` }
}
