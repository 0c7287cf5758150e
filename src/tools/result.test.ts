import { describe, expect, test } from 'vitest'
import { ERROR_CODES } from './errors.ts'
import type { ErrorCode } from './errors.ts'
import { emptySuccess, failure, MAX_ERROR_MESSAGE, replayed, success } from './result.ts'

describe('failure', () => {
  test.each(Object.keys(ERROR_CODES) as ErrorCode[])('%s is retryable exactly when its row says so', (code) => {
    expect(failure({ code, message: 'why', stop: null })).toEqual({
      ok: false,
      data: null,
      error: { code, message: 'why', retryable: ERROR_CODES[code].retryable },
      meta: { truncated: false, untrusted: false },
      stop: null,
    })
  })

  test('keeps a message short, clean and never empty', () => {
    const message = (text: string): string =>
      failure({ code: 'conflict', message: text, stop: null }).error?.message ?? ''
    expect(message('x'.repeat(5000))).toBe(`${'x'.repeat(MAX_ERROR_MESSAGE - 3)}...`)
    expect(message(`${'x'.repeat(MAX_ERROR_MESSAGE - 4)}\u{1f600}${'y'.repeat(9)}`).isWellFormed()).toBe(true)
    expect(message(' a\u0000\u202eb\ud800 ')).toBe('ab\ufffd')
    expect(message(' \n ')).toBe(ERROR_CODES.conflict.title)
  })

  test('carries the stop the invoker decided on', () => {
    expect(failure({ code: 'internal_error', message: '', stop: 'fault' }).stop).toBe('fault')
  })
})

describe('results that stand for an effect', () => {
  test('an effect whose answer was lost is a success without data', () => {
    expect(emptySuccess()).toEqual({
      ok: true,
      data: null,
      error: null,
      meta: { truncated: false, untrusted: false },
      stop: null,
    })
  })

  test('a replay is the stored answer with the time of the effect, and never a stop', () => {
    const stored = { ...success([1], { count: 1, truncated: true, untrusted: true }), stop: 'fault' as const }
    expect(replayed({ result: stored, completedAt: new Date(0) })).toEqual({
      ...stored,
      meta: { count: 1, truncated: true, untrusted: true, replayedFrom: '1970-01-01T00:00:00.000Z' },
      stop: null,
    })
  })
})
