import { describe, expect, test } from 'vitest'
import { ERROR_CODES } from '../tools/errors.ts'
import type { Observed } from './claim-ending.ts'
import { codeOf, endingOfClaim } from './claim-ending.ts'

/** What happened, what the claim becomes, and what the model reads when the handler named `not_found` or the resolver a connection code. */
const TABLE: readonly (readonly [Observed, 'complete' | 'release' | 'hold', string | null])[] = [
  ['ok', 'complete', null],
  ['business_failure', 'complete', 'named'],
  ['invalid_output', 'complete', 'invalid_output'],
  ['retryable_upstream', 'release', 'retryable_upstream'],
  ['unavailable', 'complete', 'unavailable'],
  ['connection', 'release', 'named'],
  ['timeout_before', 'release', 'timeout'],
  ['timeout_during', 'hold', 'timeout'],
  ['outcome_unknown', 'hold', 'timeout'],
  ['raised', 'release', null],
  ['raised_after_handler', 'hold', null],
]

describe('the end of a claim', () => {
  test.each(TABLE)('%s: the claim is to %s', (observed, ending) => {
    expect(endingOfClaim(observed)).toBe(ending)
  })

  test.each(TABLE)('%s: after %s the model reads %s', (observed, _, code) => {
    for (const named of ['not_found', 'conflict', 'connection_expired', 'connection_required'] as const) {
      expect(codeOf(observed, named)).toBe(code === 'named' ? named : code)
    }
  })

  test('a code that is not named by the call itself exists in the table of codes', () => {
    for (const [, , code] of TABLE) {
      expect(code === null || code === 'named' || Object.hasOwn(ERROR_CODES, code)).toBe(true)
    }
  })

  test('what may have had an effect is never released', () => {
    const mayHaveHappened: readonly Observed[] = [
      'ok',
      'invalid_output',
      'timeout_during',
      'outcome_unknown',
      'raised_after_handler',
    ]
    expect(mayHaveHappened.map(endingOfClaim)).not.toContain('release')
  })

  test('what is offered for another try leaves no answer behind', () => {
    for (const [observed, , code] of TABLE) {
      const retryable =
        code !== null && Object.entries(ERROR_CODES).some(([name, row]) => name === code && row.retryable)
      expect(retryable && endingOfClaim(observed) === 'complete').toBe(false)
    }
  })
})
