import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { bareCopy, frozenCopy, validateArguments } from './arguments.ts'
import { parseArgumentsText } from './arguments-text.ts'
import { bound } from './bound.ts'
import { canonicalJson } from './canonical.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { isJsonObject } from './json.ts'
import { normalise } from './normalise.ts'
import { redact } from './redact.ts'
import { encode, modelPayload } from './render.ts'
import { boundResult } from './result-boundary.ts'
import { success } from './result.ts'
import { compileSchema } from './schema.ts'

/** By way of text, so that `__proto__` is a key like any other. */
const text = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  'valueOf',
  'prototype',
  'toJSON',
  'a',
)
const { value: values } = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.oneof(text, fc.constantFrom<JsonValue>(null, true, 1)),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(text, tie('value')), { maxLength: 4 }).map(record),
  ),
}))
const records = fc.array(fc.tuple(text, values), { maxLength: 5 }).map(record)

function record(fields: readonly (readonly [string, JsonValue])[]): JsonObject {
  const members = [...new Map(fields)].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`)
  return JSON.parse(`{${members.join(',')}}`) as JsonObject
}

/** Every key of a value with where it stands, in order. */
function keysOf(value: JsonValue, path = ''): string[] {
  if (typeof value !== 'object' || value === null) return []
  const fields: [string, JsonValue][] = Object.entries(value)
  return fields.flatMap(([key, field]) => [`${path}/${key}`, ...keysOf(field, `${path}/${key}`)])
}

/** Runs some work and shows that no object got or lost a member by it. */
function withoutPollution<T>(work: () => T): T {
  const members = (): unknown[] =>
    [Object.prototype, Array.prototype, Function.prototype].map((prototype) =>
      Reflect.ownKeys(prototype).map(String).join(' '),
    )
  const before = members()
  const answer = work()
  expect(members()).toEqual(before)
  expect(Object.getPrototypeOf({})).toBe(Object.prototype)
  return answer
}

test('arguments keep every key but __proto__, which is refused wherever it stands', () => {
  fc.assert(
    fc.property(records, (args) => {
      withoutPollution(() => {
        const written = JSON.stringify(args)
        expect(parseArgumentsText(written)).toEqual({ kind: 'parsed', value: args })
        const verdict = validateArguments({ type: 'object' }, args)
        const refused = keysOf(args).some((path) => path.endsWith('/__proto__'))
        expect(verdict.kind).toBe(refused ? 'invalid' : 'valid')
        if (verdict.kind === 'valid') expect(keysOf(verdict.args)).toEqual(keysOf(args))
      })
    }),
    { numRuns: 500 },
  )
})

test('copies of arguments hold the same, inherit what they should, and share nothing', () => {
  fc.assert(
    fc.property(records, (args) => {
      withoutPollution(() => {
        const [bare, frozen] = [bareCopy(args) as JsonObject, frozenCopy(args)]
        expect([JSON.stringify(bare), JSON.stringify(frozen)]).toEqual([JSON.stringify(args), JSON.stringify(args)])
        expect([canonicalJson(bare), canonicalJson(frozen)]).toEqual([canonicalJson(args), canonicalJson(args)])
        expect(Object.getPrototypeOf(bare)).toBeNull()
        expect(Object.getPrototypeOf(frozen)).toBe(Object.prototype)
        expect(everyObject(frozen, (one) => Object.isFrozen(one))).toBe(true)
        expect(everyObject(structuredClone(frozen), (one) => !Object.isFrozen(one))).toBe(true)
      })
    }),
    { numRuns: 500 },
  )
})

function everyObject(value: JsonValue, holds: (one: object) => boolean): boolean {
  if (typeof value !== 'object' || value === null) return true
  return holds(value) && Object.values(value).every((field) => everyObject(field, holds))
}

test('answers keep their keys on the whole way to the model', () => {
  const spec = { kind: 'vendor', maxResults: null, maxOutputBytes: null, itemKind: 'crm.person' } as const
  fc.assert(
    fc.property(values, (answer) => {
      withoutPollution(() => {
        const keys = keysOf(answer)
        expect(keysOf(normalise(answer))).toEqual(keys)
        expect(keysOf(redact(answer, ['no-such-secret']))).toEqual(keys)
        const { data, meta } = boundResult({ spec, data: normalise(answer), meta: {}, secrets: [] })
        expect(keysOf(data)).toEqual(keys)
        const body = modelPayload(success(data, meta), 'a.b').split('\n')[2] ?? ''
        expect(body).toBe(JSON.stringify(answer))
        expect(keysOf(JSON.parse(body) as JsonValue)).toEqual(keys)
      })
    }),
    { numRuns: 500 },
  )
})

test('answers that are too large lose values, from the end and with markers, and no key becomes another', () => {
  fc.assert(
    fc.property(values, fc.integer({ min: 2, max: 120 }), (answer, limit) => {
      withoutPollution(() => {
        const { value } = bound(answer, limit)
        expect(Buffer.byteLength(encode(value))).toBeLessThanOrEqual(limit)
        const left = keysOf(value).filter((path) => !path.includes('/__dropped__'))
        const all = new Set(keysOf(answer))
        expect(left.filter((path) => !all.has(path))).toEqual([])
      })
    }),
    { numRuns: 500 },
  )
})

test('a value is judged by its own members only', () => {
  const required = fc.uniqueArray(text, { maxLength: 3 })
  fc.assert(
    fc.property(values, required, (value, names) => {
      withoutPollution(() => {
        const { kind } = compileSchema({ type: 'object', required: names }).validate(value)
        const holds = isJsonObject(value) && names.every((name) => Object.hasOwn(value, name))
        expect(kind).toBe(holds ? 'valid' : 'invalid')
        const only = compileSchema({ const: value }).validate(JSON.parse(JSON.stringify(value)))
        expect(only.kind).toBe('valid')
      })
    }),
    { numRuns: 500 },
  )
})
