import * as fc from 'fast-check'
import type { ModelCall } from './ledger-model.ts'

/** One step of a history. Numbers choose among what is there, modulo how much there is. */
export type Step =
  | { readonly do: 'open' | 'file' | 'claim' | 'claim stale'; readonly call: number; readonly handed: number }
  | { readonly do: 'close'; readonly worker: number; readonly ending: 'complete' | 'release' | 'hold' }
  | { readonly do: 'answer'; readonly approval: number; readonly state: 'approved' | 'rejected' }
  | { readonly do: 'make due'; readonly approval: number }
  | { readonly do: 'set granted' | 'set enabled'; readonly tool: number; readonly to: boolean }
  | { readonly do: 'ask outcome'; readonly call: number }
  | { readonly do: 'answer outcome'; readonly approval: number; readonly how: 'arrived' | 'send again' | 'leave' }
  | { readonly do: 'change rules' | 'cancel' | 'expire leases' | 'expire due' }

export const TOOLS = ['notes.write', 'mail.send'] as const
const ARGUMENTS = ['a', 'b'] as const
export const CALLS: readonly ModelCall[] = TOOLS.flatMap((tool) =>
  ARGUMENTS.map((text) => ({ tool, text, onUnknown: tool === 'mail.send' ? ('ask' as const) : ('reclaim' as const) })),
)

const pick = fc.nat({ max: 11 })
const callStep = fc.record({
  do: fc.constantFrom('open' as const, 'file' as const, 'claim' as const, 'claim stale' as const),
  call: pick,
  handed: pick,
})

/** Random histories, weighted towards what calls do and away from what ends everything. */
export const history: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(
    { weight: 12, arbitrary: callStep },
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constant('close' as const),
        worker: pick,
        ending: fc.constantFrom('complete' as const, 'release' as const, 'hold' as const),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('answer' as const),
        approval: pick,
        state: fc.constantFrom('approved' as const, 'rejected' as const),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('ask outcome' as const), call: pick }) },
    {
      weight: 3,
      arbitrary: fc.record({
        do: fc.constant('answer outcome' as const),
        approval: pick,
        how: fc.constantFrom('arrived' as const, 'send again' as const, 'leave' as const),
      }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('make due' as const), approval: pick }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constantFrom('set granted' as const, 'set enabled' as const),
        tool: pick,
        to: fc.boolean(),
      }),
    },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constantFrom('change rules' as const, 'expire leases' as const, 'expire due' as const),
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('cancel' as const) }) },
  ),
  { minLength: 1, maxLength: 40 },
)
