import { _ } from 'ajv'
import type { Ajv, FuncKeywordDefinition } from 'ajv'
import { canonicalJson } from './canonical.ts'
import type { JsonValue } from './json.ts'

/**
 * Keywords of the library that are replaced by our own, because they compare by way of members that the value itself may
 * carry (`{"valueOf": 1}` made `enum` throw), compare every pair, or calculate with binary fractions.
 */
export function replaceKeywords(ajv: Ajv, step: Step): void {
  for (const definition of replaced(step)) {
    ajv.removeKeyword(definition.keyword as string)
    ajv.addKeyword(definition)
  }
}

/** Counts work; throws to end a validation that has done too much. */
type Step = (cost: number) => void

const replaced = (step: Step): readonly FuncKeywordDefinition[] => [
  {
    keyword: 'enum',
    schemaType: 'array',
    error: {
      message: 'must be equal to one of the allowed values',
      params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}`,
    },
    compile: (allowed: readonly JsonValue[]) => oneOf(allowed, step),
  },
  {
    keyword: 'const',
    error: { message: 'must be equal to constant', params: ({ schemaCode }) => _`{allowedValue: ${schemaCode}}` },
    compile: (allowed: JsonValue) => oneOf([allowed], step),
  },
  {
    keyword: 'multipleOf',
    type: 'number',
    schemaType: 'number',
    error: { message: ({ schemaCode }) => _`"must be a multiple of " + ${schemaCode}` },
    compile: (divisor: number) => (value: number) => isMultiple(value, divisor),
  },
  {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: { message: 'must not hold the same item twice' },
    compile: (wanted: boolean) => (items: readonly JsonValue[]) => !wanted || areUnique(items, step),
  },
]

function oneOf(allowed: readonly JsonValue[], step: Step): (value: JsonValue) => boolean {
  const keys = new Set(allowed.map((value) => keyOf(value, free)))
  const structured = allowed.some(isStructure)
  return (value) => (structured || !isStructure(value)) && keys.has(keyOf(value, step))
}

function free(): void {}

function isStructure(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null
}

/** One pass over one text each; comparing pairs took 1.6 s for five thousand objects. */
function areUnique(items: readonly JsonValue[], step: Step): boolean {
  return new Set(items.map((item) => keyOf(item, step))).size === items.length
}

/** Characters of canonical text that take as long to write as one step. */
const CHARACTERS_PER_STEP = 32

/** Equal for equal JSON values, and only for those: numbers as numbers, everything else as tagged text. */
function keyOf(value: JsonValue, step: Step): JsonValue {
  if (typeof value === 'string') return `"${value}`
  if (!isStructure(value)) return value
  const text = canonicalJson(value)
  step(Math.ceil(text.length / CHARACTERS_PER_STEP))
  return text
}

/** Exact in decimal, as the schema and the value are written: 19.99 is a multiple of 0.01, and 1e308 of 0.5. */
function isMultiple(value: number, divisor: number): boolean {
  if (!Number.isFinite(value) || !Number.isFinite(divisor) || divisor === 0) return false
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  const [a, b] = [decimal(value), decimal(divisor)]
  const scale = Math.min(a.exponent, b.exponent)
  return scaled(a, scale) % scaled(b, scale) === 0n
}

interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

/** The shortest decimal that is this number. */
function decimal(value: number): Decimal {
  const [mantissa = '', exponent = '0'] = String(value).split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length }
}

/** At most some six hundred digits: the exponents of a number span from -324 to 308. */
function scaled({ digits, exponent }: Decimal, scale: number): bigint {
  return digits * 10n ** BigInt(exponent - scale)
}
