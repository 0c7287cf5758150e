import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { sha256Hex, canonicalJson } from '../tools/canonical.ts'
import type { JsonValue } from '../tools/json.ts'
import { resultOf } from './delivery.ts'
import { digestOf, storedResult } from './result.ts'

const JOB = '0192f0c1-0000-8000-8000-000000000001'
const OTHER = '0192f0c1-0000-8000-8000-000000000002'
const LIMIT = 32 * 1024

test('what fits stays in the job, to the byte; one byte more stands apart under its digest', () => {
  const fits = 'x'.repeat(LIMIT - 2)
  expect(storedResult(JOB, fits)).toEqual({ kind: 'inline', value: fits })
  const larger = 'x'.repeat(LIMIT - 1)
  const digest = sha256Hex(canonicalJson(larger))
  const ref = { kind: 'provider_job.result', id: `${JOB}/${digest}` }
  expect(storedResult(JOB, larger)).toEqual({ kind: 'apart', value: larger, digest, ref })
  expect(digestOf(JOB, ref)).toBe(digest)
})

test('the digest is that of the value, not of how it was written', () => {
  const filler = 'x'.repeat(LIMIT)
  const stored = (value: JsonValue) => storedResult(JOB, value)
  expect(stored({ a: 1, filler })).toMatchObject({ ref: (stored({ filler, a: 1 }) as { ref: object }).ref })
})

test('an answer of a vendor that looks like a reference is never read as one', () => {
  for (const id of [`${OTHER}/${'0'.repeat(64)}`, `${JOB}/${'0'.repeat(64)}`, 7]) {
    const stored = storedResult(JOB, { kind: 'provider_job.result', id })
    expect(stored.kind).toBe('apart')
  }
})

test('whatever a vendor answers, what the job holds is small and leads back to the value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const stored = storedResult(JOB, value as JsonValue)
      const held = resultOf(stored)
      expect(Buffer.byteLength(JSON.stringify(held))).toBeLessThanOrEqual(LIMIT)
      expect(digestOf(JOB, held)).toBe(stored.kind === 'inline' ? null : stored.digest)
    }),
  )
})

test('a reference to another job, or to no digest, is a fault of storage', () => {
  for (const id of [`${OTHER}/${'0'.repeat(64)}`, `${JOB}/x`, `${JOB}/${'0'.repeat(64)}/`, ''])
    expect(() => digestOf(JOB, { kind: 'provider_job.result', id })).toThrow('not its own')
})

test('what no database text can hold is left out', () => {
  expect(storedResult(JOB, ['a\0b', '\ud800'])).toEqual({ kind: 'inline', value: ['ab', '\ufffd'] })
})
