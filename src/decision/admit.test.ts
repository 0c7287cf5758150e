import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { plainSpec } from '../testing/plain-spec.ts'
import type { ToolSpec } from '../tools/models.ts'
import { batchSize, batchTooLarge, checkContract } from './admit.ts'

function spec(changes: Partial<ToolSpec> = {}): ToolSpec {
  return plainSpec({
    name: 'crm.upsert_person',
    sideEffects: 'write',
    version: 2,
    schemaHash: 'hash-2',
    batchArgument: 'people',
    maxBatchSize: 3,
    ...changes,
  })
}

describe('the frozen contract against the live one', () => {
  const live = { version: 2, schemaHash: 'hash-2' }

  test.each([
    ['the same', spec(), live, true, null],
    ['a name the run was never shown', undefined, live, true, 'tool_unavailable'],
    ['a tool that is gone', spec(), undefined, true, 'tool_unavailable'],
    ['a tool that is switched off', spec(), live, false, 'tool_unavailable'],
    ['a changed tool that is switched off', spec(), { version: 3, schemaHash: 'hash-3' }, false, 'tool_unavailable'],
    ['another schema under a higher version', spec(), { version: 3, schemaHash: 'hash-3' }, true, 'tool_changed'],
    ['another schema under the same version', spec(), { version: 2, schemaHash: 'hash-x' }, true, 'tool_changed'],
    ['the same schema under another version', spec(), { version: 3, schemaHash: 'hash-2' }, true, 'tool_changed'],
    ['an older deployment', spec(), { version: 1, schemaHash: 'hash-1' }, true, 'tool_changed'],
  ] as const)('%s', (...[, frozen, current, enabled, code]) => {
    expect(checkContract(frozen, current, enabled)).toBe(code)
  })
})

describe('the size of a batch', () => {
  test.each([
    [{ people: [] }, 0],
    [{ people: [1, 2] }, 2],
    [{}, 0],
    [{ people: 'abc' }, 0],
    [{ people: null }, 0],
    [{ people: { length: 9 } }, 0],
    [{ people: [1], filters: [1, 2, 3, 4, 5] }, 1],
    [{ nested: { people: [1, 2, 3, 4] } }, 0],
  ])('%j counts %i', (args, size) => {
    expect(batchSize(spec(), args)).toBe(size)
  })

  test('only an own argument is counted', () => {
    expect(batchSize(spec(), Object.create({ people: [1, 2, 3, 4] }))).toBe(0)
    expect(batchSize(spec({ batchArgument: '__proto__' }), {})).toBe(0)
  })

  test('is refused above the limit, at no smaller size, and never without a limit', () => {
    fc.assert(
      fc.property(fc.array(fc.integer(), { maxLength: 10 }), fc.integer({ min: 1, max: 10 }), (people, limit) => {
        expect(batchTooLarge(spec({ maxBatchSize: limit }), { people })).toBe(people.length > limit)
        expect(batchTooLarge(spec({ maxBatchSize: null, batchArgument: null }), { people })).toBe(false)
      }),
    )
  })
})
