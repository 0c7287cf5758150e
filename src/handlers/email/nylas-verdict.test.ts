import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { OutcomeUnknownError } from '../../tools/errors.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { FRESH, nextStep, type Progress, type RepeatLimits, type Step } from './nylas-verdict.ts'
import { type NylasAnswer, refusalOf } from './nylas-wire.ts'

const LIMITS: RepeatLimits = { pauseMs: 1_000, putOffRepeats: 2 }

const TYPES = [
  'api.invalid_request_error',
  'unauthorized',
  'token.unauthorized_access',
  'insufficient_scopes',
  'not_found_error',
  'api.invalid_idempotency_key',
  'api.invalid_idempotent_request',
  'api.concurrent_idempotent_request',
  'rate_limit_error',
  'api.provider_error',
  'something.nobody_knows',
]

const refusal = fc
  .record({
    status: fc.oneof(
      fc.constantFrom(400, 401, 402, 403, 404, 408, 409, 422, 423, 429, 500, 502, 503, 504),
      fc.integer({ min: 100, max: 999 }),
    ),
    type: fc.option(fc.constantFrom(...TYPES)),
    replayed: fc.boolean(),
    retryAfter: fc.option(fc.integer({ min: 0, max: 9_999 })),
  })
  .map(({ status, type, replayed, retryAfter }) => {
    const headers = new Headers()
    if (replayed) headers.set('idempotent-response', 'true')
    if (retryAfter !== null) headers.set('retry-after', String(retryAfter))
    return refusalOf({ status, headers, text: type === null ? '<h1>no</h1>' : JSON.stringify({ error: { type } }) })
  })

const error = new VendorError({ vendor: 'nylas', trouble: 'transport' })

const unsuccessful: fc.Arbitrary<NylasAnswer> = fc.oneof(
  { weight: 4, arbitrary: refusal },
  { weight: 1, arbitrary: fc.constant<NylasAnswer>({ kind: 'lost', error }) },
  { weight: 1, arbitrary: fc.boolean().map((passing): NylasAnswer => ({ kind: 'unreached', passing, error })) },
)

const progress: fc.Arbitrary<Progress> = fc.record({
  maybeSent: fc.boolean(),
  repeats: fc.nat({ max: 2 }),
  putOff: fc.nat({ max: 3 }),
})

/** What the call ends with if nothing more is asked. */
function endOf(step: Step): 'accepted' | 'unknown' | 'nothing sent' {
  if (step.kind === 'accepted') return 'accepted'
  const raised = step.kind === 'raise' ? step.error : step.kind === 'again' ? step.otherwise : null
  return raised instanceof OutcomeUnknownError ? 'unknown' : 'nothing sent'
}

/** Statuses whose own meaning is that the request was not carried out. */
const REFUSALS = new Set([400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 422, 423, 429, 431])

describe('every answer', () => {
  test('once a request may have sent the letter, only an answer about that request says that nothing was sent', () => {
    fc.assert(
      fc.property(unsuccessful, progress, (answer, before) => {
        const readBack = answer.kind === 'refused' && answer.replayed
        fc.pre(before.maybeSent && !readBack)
        expect(endOf(nextStep(answer, before, LIMITS))).toBe('unknown')
      }),
    )
  })

  test('that is not a plain refusal leaves it open whether the letter was sent', () => {
    fc.assert(
      fc.property(refusal, progress, (answer, before) => {
        fc.pre(!REFUSALS.has(answer.status) && answer.type !== 'unauthorized_access')
        expect(endOf(nextStep(answer, before, LIMITS))).toBe('unknown')
      }),
    )
  })

  test('that is lost or fails is repeated once at most, and one that puts off as often as the limits say', () => {
    fc.assert(
      fc.property(fc.array(unsuccessful, { maxLength: 30 }), (answers) => {
        let before = FRESH
        for (const answer of answers) {
          const step = nextStep(answer, before, LIMITS)
          if (step.kind !== 'again') break
          expect(before.maybeSent && !step.progress.maybeSent).toBe(false)
          before = step.progress
        }
        expect(before.repeats).toBeLessThanOrEqual(1)
        expect(before.putOff).toBeLessThanOrEqual(LIMITS.putOffRepeats)
      }),
    )
  })

  test('is read back as often as it is asked for when it is a success', () => {
    fc.assert(
      fc.property(progress, (before) => {
        expect(nextStep({ kind: 'taken', messageId: null }, before, LIMITS)).toEqual({
          kind: 'accepted',
          messageId: null,
        })
      }),
    )
  })
})

test('a stored refusal of an earlier attempt is checked against the grant of today', () => {
  const stored = (status: number, type: string) =>
    refusalOf({
      status,
      headers: new Headers({ 'idempotent-response': 'true' }),
      text: JSON.stringify({ error: { type } }),
    })
  expect(nextStep(stored(401, 'unauthorized'), FRESH, LIMITS)).toMatchObject({ kind: 'ask_about_grant', stale: true })
  expect(nextStep(stored(403, 'insufficient_scopes'), FRESH, LIMITS)).toMatchObject({
    kind: 'ask_about_grant',
    stale: true,
  })
  const lost: Progress = { ...FRESH, maybeSent: true, repeats: 1 }
  expect(nextStep(stored(403, 'insufficient_scopes'), lost, LIMITS)).toEqual({ kind: 'reconnect' })
  expect(nextStep(stored(401, 'unauthorized'), lost, LIMITS)).toMatchObject({ kind: 'ask_about_grant', stale: false })
})
