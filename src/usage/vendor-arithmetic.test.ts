import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { vendorArithmetic, widestReach, type CallShape } from './vendor-arithmetic.ts'

const call = (vendor: string, width: number): CallShape => ({ kind: 'call', vendors: [vendor], width })
const shape = (kind: 'sequence' | 'branch' | 'parallel', ...parts: CallShape[]): CallShape => ({ kind, parts })

describe('R31 how far one run can reach', () => {
  test.each<[string, CallShape, number]>([
    ['a call to another vendor reaches nothing', call('hunter', 5), 0],
    ['a wide node counts as often as it is wide', call('exa', 5), 5],
    ['a sequence is as wide as its widest part', shape('sequence', call('exa', 2), call('exa', 5)), 5],
    ['a branch takes the furthest way', shape('branch', call('exa', 2), shape('sequence', call('exa', 3))), 3],
    [
      'and so do they deep inside',
      shape(
        'sequence',
        call('exa', 6),
        shape('parallel', shape('branch', call('exa', 5), call('exa', 1)), call('exa', 4)),
      ),
      9,
    ],
    ['nothing reaches nothing', shape('parallel'), 0],
    ['no way at all reaches nothing', shape('branch'), 0],
  ])('%s', (_what, given, calls) => {
    expect(widestReach(given, 'exa')).toBe(calls)
  })
})

test('T46 two wide nodes that can run in parallel against one account add up', () => {
  expect(widestReach(shape('parallel', call('exa', 5), call('exa', 4)), 'exa')).toBe(9)
})

/** What can really be in flight: every way to run a shape, tried. */
function possible(given: CallShape): number[] {
  if (given.kind === 'call') return [given.vendors.includes('exa') ? given.width : 0]
  const parts = given.parts.map(possible)
  if (given.kind !== 'parallel') return [0, ...parts.flat()]
  return parts.reduce((sums, part) => sums.flatMap((sum) => part.map((one) => sum + one)), [0])
}

const shapes = fc.letrec<{ shape: CallShape }>((tie) => ({
  shape: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.record({
      kind: fc.constant('call' as const),
      vendors: fc.constantFrom(['exa'], ['hunter'], ['exa', 'hunter'], []),
      width: fc.integer({ min: 1, max: 4 }),
    }),
    fc.record({
      kind: fc.constantFrom('sequence' as const, 'branch' as const, 'parallel' as const),
      parts: fc.array(tie('shape'), { maxLength: 3 }),
    }),
  ),
})).shape

test('no way to run a workflow reaches further than its arithmetic, and one reaches exactly as far', () => {
  fc.assert(
    fc.property(shapes, (given) => {
      expect(widestReach(given, 'exa')).toBe(Math.max(...possible(given)))
    }),
  )
})

describe('the account', () => {
  const lanes = [
    {
      lane: 'interactive',
      activeRuns: 8,
      definitions: [
        { slug: 'scout', shape: call('exa', 4) },
        { slug: 'writer', shape: call('nylas', 1) },
      ],
    },
    { lane: 'batch', activeRuns: 2, definitions: [{ slug: 'sweep', shape: call('exa', 10) }] },
  ]

  test('is reached by all lanes together', () => {
    const accounts = [
      { vendor: 'exa', limit: 51 },
      { vendor: 'firecrawl', limit: 5 },
    ]
    expect(vendorArithmetic(accounts, lanes)).toEqual([
      {
        vendor: 'exa',
        limit: 51,
        calls: 52,
        verdict: 'over',
        lanes: [
          { lane: 'interactive', activeRuns: 8, callsPerRun: 4, definition: 'scout', calls: 32 },
          { lane: 'batch', activeRuns: 2, callsPerRun: 10, definition: 'sweep', calls: 20 },
        ],
      },
      { vendor: 'firecrawl', limit: 5, calls: 0, verdict: 'fits', lanes: [] },
      {
        vendor: 'nylas',
        limit: null,
        calls: 8,
        verdict: 'no limit recorded',
        lanes: [{ lane: 'interactive', activeRuns: 8, callsPerRun: 1, definition: 'writer', calls: 8 }],
      },
    ])
  })

  test('that takes exactly what is reached fits', () => {
    expect(vendorArithmetic([{ vendor: 'exa', limit: 52 }], lanes)[0]?.verdict).toBe('fits')
  })
})
