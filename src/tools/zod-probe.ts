import { z } from 'zod'
import { canonicalJson } from './canonical.ts'
import type { JsonValue } from './json.ts'
import { checksOf, defOf } from './zod-def.ts'
import type { ZodDef, ZodKind } from './zod-def.ts'
import type { ZodDefect } from './zod-walk.ts'

const REPEAT_REMEDY =
  'use a constant; what is filled in is part of what a person approves and what a replay is found by'

/**
 * Defaults and catch values are read twice: one that differs (an id, a time, a random number) would give the same
 * arguments another hash on every parse, and a retry would not find its own effect.
 */
export function probeRepeats(def: ZodDef): ZodDefect[] {
  if (def.type === 'default' || def.type === 'prefault') {
    return repeats(() => def.defaultValue)
      ? []
      : [{ message: 'its default is not the same JSON value each time', remedy: REPEAT_REMEDY }]
  }
  if (def.type === 'catch') {
    const caught = { value: undefined, input: undefined, issues: [], error: { issues: [] } }
    const repeated = repeats(() => def.catchValue(caught))
    return repeated ? [] : [{ message: 'its catch value is not the same JSON value each time', remedy: REPEAT_REMEDY }]
  }
  return []
}

function repeats(read: () => unknown): boolean {
  const [first, second] = [textOf(attempt(read)), textOf(attempt(read))]
  return first !== null && first === second
}

/**
 * Runs a schema's own rewriting checks (`.trim()`, `.toLowerCase()`, `.overwrite()`) on samples, twice. They leave no
 * trace in the emitted schema, and one that is not idempotent would change the arguments between the approval and the
 * execution.
 */
export function probeOverwrites(schema: z.core.$ZodType): ZodDefect[] {
  const def = defOf(schema)
  const rewrites = checksOf(def).flatMap((check) =>
    check['check'] === 'overwrite' && typeof check['tx'] === 'function' ? [check['tx'] as Rewrite] : [],
  )
  if (rewrites.length === 0) return []
  const runs: Rewrite[] = [...rewrites, (value) => parseOnly(schema, value)]
  const sample = samplesOf(def.type).find((value) => runs.some((rewrite) => !settles(rewrite, value)))
  if (sample === undefined) return []
  return [
    {
      message: `its rewriting of the value is not idempotent (tried with ${clip(JSON.stringify(sample))})`,
      remedy: 'rewrite so that a second pass changes nothing, and put length checks after the rewrite',
    },
  ]
}

type Rewrite = (value: unknown) => unknown

const REFUSED = Symbol('refused')

/** A value the rewrite refuses says nothing about it; one that it refuses the second time was not settled. */
function settles(rewrite: Rewrite, value: unknown): boolean {
  const once = attempt(() => rewrite(value))
  if (once === REFUSED) return true
  const text = textOf(once)
  if (text === null) return false
  return text === textOf(attempt(() => rewrite(value))) && text === textOf(attempt(() => rewrite(once)))
}

function parseOnly(schema: z.core.$ZodType, value: unknown): unknown {
  const parsed = z.safeParse(schema, value)
  return parsed.success ? parsed.data : REFUSED
}

function attempt(run: () => unknown): unknown {
  try {
    return run()
  } catch {
    return REFUSED
  }
}

/** Canonical text of a JSON value, null for anything else. */
function textOf(value: unknown): string | null {
  if (value === undefined || value === REFUSED || typeof value === 'symbol') return null
  try {
    const text = canonicalJson(value as JsonValue)
    return canonicalJson(JSON.parse(text) as JsonValue) === text ? text : null
  } catch {
    return null
  }
}

const WORDS = [
  '',
  ' ',
  'a',
  'Ab',
  ' Ab c ',
  'a b  c',
  'aa!!',
  '!!!!',
  '0012',
  '12.50',
  '-1',
  'é',
  'e\u0301',
  'ß',
  'İ',
  '\t\n',
  '\u00a0x\u00a0',
  '"quoted"',
  '<a href="b">c</a>',
  'a&amp;b',
  '%20',
  'a,b,,c',
  'a/b/../c',
  ' Ada@Example.COM ',
  'Ada@Example.COM',
  'ada+tag@example.com',
  'HTTPS://Example.com/A?b=C#d',
  'https://example.com',
  '2026-01-02',
  '2026-01-02T03:04:05.678Z',
  '2F1D7B54-3C5E-4A6B-8D7F-0123456789AB',
  '+44 (0)20 7946 0000',
  'x'.repeat(40),
  'Word '.repeat(60),
]
const NUMBERS = [0, 1, -1, 2, 3, 7, 10, 0.5, 1.25, -2.75, 19.99, 99, 1000, 123_456, 1e9]
const LISTS = [[], [''], ['b', 'a', 'b'], [3, 1, 2, 2], [{ id: 'b' }, { id: 'a' }], [['b'], ['a']]]
const RECORDS = [{}, { a: 1 }, { b: 'x', a: 'y' }, { id: 'a', list: [2, 1] }]

const SAMPLES: Partial<Record<ZodKind, readonly unknown[]>> = {
  string: WORDS,
  number: NUMBERS,
  array: LISTS,
  tuple: LISTS,
  boolean: [true, false],
}

function samplesOf(kind: ZodKind): readonly unknown[] {
  return SAMPLES[kind] ?? [...RECORDS, ...WORDS, ...NUMBERS, ...LISTS]
}

function clip(text: string): string {
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}
