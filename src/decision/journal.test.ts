import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { JournalQuestion, JournalRow } from './journal.ts'
import { readClaim, readJournal, takeoverOf } from './journal.ts'

const NOW = new Date('2026-01-01T12:00:00Z')
const at = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1000)

function row(changes: Partial<JournalRow> = {}): JournalRow {
  return {
    status: 'processing',
    requestHash: 'h',
    attempt: 1,
    leaseUntil: at(30),
    firstClaimedAt: at(-30),
    claimedAt: at(-30),
    ...changes,
  }
}

function question(changes: Partial<JournalQuestion> = {}): JournalQuestion {
  return { argsHash: 'h', now: NOW, takeoverS: null, ...changes }
}

const anyRow: fc.Arbitrary<JournalRow | null> = fc.option(
  fc.record({
    status: fc.constantFrom('processing', 'completed', 'reclaimable'),
    requestHash: fc.constantFrom('h', 'other'),
    attempt: fc.integer({ min: 1, max: 9 }),
    leaseUntil: fc.integer({ min: -100, max: 100 }).map(at),
    firstClaimedAt: fc.integer({ min: -400, max: -200 }).map(at),
    claimedAt: fc.integer({ min: -200, max: -100 }).map(at),
  }),
)
const anyQuestion: fc.Arbitrary<JournalQuestion> = fc.record({
  argsHash: fc.constant('h'),
  now: fc.constant(NOW),
  takeoverS: fc.constantFrom(null, 0, 300),
})

describe('reading the journal', () => {
  test.each([
    ['no row', null, question(), 'absent'],
    ['a completed row', row({ status: 'completed' }), question(), 'completed'],
    [
      'a completed row whose lease is long over',
      row({ status: 'completed', leaseUntil: at(-9999) }),
      question({ takeoverS: 0 }),
      'completed',
    ],
    ['a live claim', row(), question(), 'processing'],
    ['a live claim of a tool that asks', row(), question({ takeoverS: 0 }), 'processing'],
    ['a lease in its last moment', row({ leaseUntil: new Date(NOW.getTime() + 1) }), question(), 'processing'],
    ['a lease that ends now', row({ leaseUntil: NOW }), question(), 'absent'],
    ["a dead worker's claim", row({ leaseUntil: at(-1) }), question(), 'absent'],
    ["a dead worker's claim of a tool that asks", row({ leaseUntil: at(-1) }), question({ takeoverS: 0 }), 'unknown'],
    [
      "a dead worker's claim that the receiver still remembers",
      row({ leaseUntil: at(-1), firstClaimedAt: at(-99) }),
      question({ takeoverS: 100 }),
      'absent',
    ],
    [
      "a dead worker's claim that the receiver may have forgotten",
      row({ leaseUntil: at(-1), firstClaimedAt: at(-100) }),
      question({ takeoverS: 100 }),
      'unknown',
    ],
    ['a claim a person gave back', row({ status: 'reclaimable' }), question({ takeoverS: 0 }), 'absent'],
    ['a claim for other arguments', row({ requestHash: 'other' }), question(), 'conflict'],
    ['an answer to other arguments', row({ requestHash: 'other', status: 'completed' }), question(), 'conflict'],
    [
      'a dead claim for other arguments',
      row({ requestHash: 'other', leaseUntil: at(-1) }),
      question({ takeoverS: 0 }),
      'conflict',
    ],
  ])('%s', (...[, stored, asked, reading]) => {
    expect(readJournal(stored, asked)).toBe(reading)
  })

  test('never says claimed: only the claim itself can', () => {
    fc.assert(
      fc.property(anyRow, anyQuestion, (stored, asked) => {
        expect(['absent', 'completed', 'processing', 'conflict', 'unknown']).toContain(readJournal(stored, asked))
      }),
    )
  })
})

describe('claiming', () => {
  test('what is completed is answered, whatever moved since', () => {
    fc.assert(
      fc.property(anyRow, anyQuestion, fc.boolean(), (stored, asked, unmoved) => {
        fc.pre(readJournal(stored, asked) === 'completed')
        expect(readClaim(stored, asked, unmoved)).toBe('completed')
      }),
    )
  })

  test('nothing is claimed once something moved', () => {
    fc.assert(
      fc.property(anyRow, anyQuestion, (stored, asked) => {
        const reading = readJournal(stored, asked)
        expect(readClaim(stored, asked, false)).toBe(
          reading === 'completed' || reading === 'conflict' ? reading : 'moved',
        )
      }),
    )
  })

  test('exactly what the journal reads as absent is claimed', () => {
    fc.assert(
      fc.property(anyRow, anyQuestion, (stored, asked) => {
        const reading = readJournal(stored, asked)
        expect(readClaim(stored, asked, true)).toBe(reading === 'absent' ? 'claimed' : reading)
      }),
    )
  })

  test('a claim nobody knows the outcome of is taken over only after a person gave it back', () => {
    const asks = question({ takeoverS: 0 })
    expect(readClaim(row({ leaseUntil: at(-1) }), asks, true)).toBe('unknown')
    expect(readClaim(row({ leaseUntil: at(-1), status: 'reclaimable' }), asks, true)).toBe('claimed')
  })
})

describe('how long a dead claim may be taken over', () => {
  const spec = { onUnknown: 'reclaim', downstreamKey: true, downstreamKeyS: null, timeoutS: 30 } as const
  test.each([
    ['always, where the effect is its own record', { ...spec, downstreamKey: false }, null],
    ['always, where the receiver never forgets a key', spec, null],
    ['while a forgetful receiver knows the key and has time for the attempt', { ...spec, downstreamKeyS: 3600 }, 3570],
    ['never, where an attempt takes longer than the receiver remembers', { ...spec, downstreamKeyS: 20 }, 0],
    ['never, where a person is asked', { ...spec, onUnknown: 'ask', downstreamKeyS: 3600 } as const, 0],
  ])('%s', (_case, given, seconds) => {
    expect(takeoverOf(given)).toBe(seconds)
  })

  test('by a contract that was frozen before there was such a limit, always', () => {
    const { downstreamKeyS: _, ...older } = spec
    expect(takeoverOf(older as typeof spec)).toBeNull()
  })
})
