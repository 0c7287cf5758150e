import { z } from 'zod'
import { isJsonObject, own, type JsonObject, type JsonValue } from '../../tools/json.ts'
import { clippedText, webAddress } from './vendor-text.ts'

const RESULTS = ['answered', 'empty', 'missing', 'malformed'] as const
const CONFIDENCES = ['high', 'medium', 'low'] as const

/** One requested field: exactly one of these for each, in the order of the request. */
export const FieldResult = z.object({
  name: z.string(),
  value: z.string().nullable(),
  /** The vendor's own; null where it gives none. */
  confidence: z.enum(CONFIDENCES).nullable(),
  /** Pages the value rests on. */
  sources: z.array(z.string()),
  result: z.enum(RESULTS),
})

export type FieldResult = z.output<typeof FieldResult>

export interface TaskView {
  readonly fields: FieldResult[]
  readonly diagnostics: { readonly missing: number; readonly malformed: number; readonly unknown: number }
}

const MAX_VALUE = 500
const MAX_SOURCES = 3
const MAX_SOURCE = 300

const Basis = z.object({
  field: z.string(),
  confidence: z.string().nullish(),
  citations: z
    .array(z.object({ url: z.string() }))
    .nullish()
    .catch(null),
})

const Output = z.object({
  output: z.object({
    type: z.literal('json'),
    content: z.record(z.string(), z.unknown()),
    basis: z.array(z.unknown()).nullish().catch(null),
  }),
})

/** What a collect shows of a task run: the fields that were asked for, found by their names and by nothing else. */
export function taskView(names: readonly string[], result: JsonValue | null): TaskView {
  const { data } = Output.safeParse(result)
  const content = contentOf(data === undefined ? null : result)
  const basis = new Map(
    (data?.output.basis ?? []).flatMap((entry) => {
      const { data: found } = Basis.safeParse(entry)
      return found === undefined ? [] : [[found.field, found] as const]
    }),
  )
  const fields = names.map((name) => fieldOf(name, own(content, name), basis.get(name)))
  const asked = new Set(names)
  return {
    fields,
    diagnostics: {
      missing: fields.filter((field) => field.result === 'missing').length,
      malformed: fields.filter((field) => field.result === 'malformed').length,
      unknown: Object.keys(content).filter((name) => !asked.has(name)).length,
    },
  }
}

/** Of the answer itself and not of a copy: a name such as `__proto__` must stay a name. */
function contentOf(result: JsonValue | null): JsonObject {
  const output = isJsonObject(result) ? own(result, 'output') : undefined
  const content = isJsonObject(output) ? own(output, 'content') : undefined
  return isJsonObject(content) ? content : {}
}

function fieldOf(name: string, value: JsonValue | undefined, basis: z.output<typeof Basis> | undefined): FieldResult {
  const nothing = { name, value: null, confidence: null, sources: [] }
  if (value === undefined) return { ...nothing, result: 'missing' }
  if (value === null) return { ...nothing, result: 'empty' }
  if (typeof value === 'object') return { ...nothing, result: 'malformed' }
  const text = clippedText(String(value), MAX_VALUE)
  if (text === null) return { ...nothing, result: 'empty' }
  const confidence = CONFIDENCES.find((known) => known === basis?.confidence) ?? null
  const sources = (basis?.citations ?? []).flatMap(({ url }) => webAddress(url) ?? [])
  const short = [...new Set(sources)].filter((source) => source.length <= MAX_SOURCE).slice(0, MAX_SOURCES)
  return { name, value: text, confidence, sources: short, result: 'answered' }
}
