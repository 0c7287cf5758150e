import * as fc from 'fast-check'
import type { ScriptedTurn } from '../src/testing/script.ts'

/* Random runs: what the model says, and what happens to the run meanwhile. Numbers choose among what is there. */

export const TOOLS = ['crm.search', 'crm.note', 'email.send', 'sms.send'] as const
export type Tool = (typeof TOOLS)[number]

export type RuleEffect = 'allow' | 'require_approval' | 'deny'
export type Rules = Readonly<Record<Tool, RuleEffect>>

/** What the outside does with the next send. `lost`: the claim runs out and nobody knows whose it is now. */
export type Fate = 'fault' | 'busy' | 'unheard' | 'answer lost' | 'lost' | 'taken over'

/** How a person answers: `stop` rejects and stops the run. */
export type Answer = 'approve' | 'reject' | 'stop'
export type Said = 'arrived' | 'send_again'

export type Event =
  | { readonly do: 'advance'; readonly by: 'a' | 'b' | 'both'; readonly after: 'wake' | 'sweep' }
  | {
      readonly do: 'answer'
      readonly which: number
      readonly how: Answer
      readonly said: Said
      /** While a segment runs. */
      readonly racing: boolean
    }
  | { readonly do: 'grant' | 'enable'; readonly tool: Tool; readonly to: boolean }
  | { readonly do: 'rule'; readonly tool: Tool; readonly effect: RuleEffect }
  | { readonly do: 'fate'; readonly fate: Fate }
  | { readonly do: 'dead claim'; readonly tool: Exclude<Tool, 'crm.search'>; readonly subject: string }
  | { readonly do: 'expire'; readonly which: number }
  | { readonly do: 'crash' | 'time passes' | 'cancel' }

export interface RunHistory {
  readonly turns: readonly ScriptedTurn[]
  readonly rules: Rules
  readonly maxTurns: number
  readonly maxToolCalls: number
  readonly events: readonly Event[]
  /** What a person says to every question once nothing random happens any more. */
  readonly home: {
    readonly how: Answer
    readonly said: Said
    /** The engine that hears of the answers is gone, and the other one finds them written. */
    readonly alone: boolean
  }
}

/** Few, so that calls repeat; both sends take the same arguments, so that two tools meet on one key. */
const SUBJECTS = ['jo', 'al'] as const

const subject = fc.constantFrom(...SUBJECTS)
const tool = fc.constantFrom(...TOOLS)
/** What a model calls: sends twice as often, since they are what can go wrong. */
const called = fc.constantFrom(...TOOLS, 'email.send' as const, 'sms.send' as const)
const effect: fc.Arbitrary<RuleEffect> = fc.oneof(
  { weight: 4, arbitrary: fc.constant('allow' as const) },
  { weight: 5, arbitrary: fc.constant('require_approval' as const) },
  { weight: 1, arbitrary: fc.constant('deny' as const) },
)
/** A read that asks ends its run, so it is rare. */
const readEffect: fc.Arbitrary<RuleEffect> = fc.oneof(
  { weight: 24, arbitrary: fc.constant('allow' as const) },
  { weight: 2, arbitrary: fc.constant('deny' as const) },
  { weight: 1, arbitrary: fc.constant('require_approval' as const) },
)
const answer: fc.Arbitrary<Answer> = fc.oneof(
  { weight: 6, arbitrary: fc.constant('approve' as const) },
  { weight: 3, arbitrary: fc.constant('reject' as const) },
  { weight: 1, arbitrary: fc.constant('stop' as const) },
)
const said = fc.constantFrom<Said[]>('arrived', 'send_again')

export function argumentsOf(tool: Tool, subject: string): Record<string, string> {
  if (tool === 'crm.search') return { query: subject }
  return tool === 'crm.note' ? { text: subject } : { to: subject, subject: 'hello' }
}

const good = fc
  .record({ tool: called, subject })
  .map(({ tool, subject }) => ({ tool, args: argumentsOf(tool, subject) }))
const bad = fc.constantFrom(
  { tool: 'crm.forget', args: {} },
  { tool: 'email.send', args: { to: 5 } },
  { tool: 'crm.note', rawArgs: '{"text":"jo","text":"al"}' },
  { tool: 'email.send', rawArgs: '{"to":' },
)
const call = fc.oneof({ weight: 14, arbitrary: good }, { weight: 1, arbitrary: bad })
const calls = fc.array(call, { minLength: 1, maxLength: 4 })
const turn: fc.Arbitrary<ScriptedTurn> = fc.oneof(
  { weight: 8, arbitrary: calls.map((calls) => ({ calls })) },
  {
    weight: 1,
    arbitrary: fc
      .record({ calls, failTimes: fc.integer({ min: 1, max: 3 }), text: fc.constantFrom('', 'one moment') })
      .map((turn) => ({ ...turn, fail: new Error('the provider is down') })),
  },
)

const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('advance' as const),
      by: fc.constantFrom('a' as const, 'b' as const, 'both' as const),
      after: fc.constantFrom('wake' as const, 'sweep' as const),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constant('answer' as const),
      which: fc.nat({ max: 7 }),
      how: answer,
      said,
      racing: fc.boolean(),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('fate' as const),
      fate: fc.constantFrom<Fate[]>('fault', 'busy', 'unheard', 'unheard', 'answer lost', 'lost', 'lost', 'taken over'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom('grant' as const, 'enable' as const),
      tool,
      to: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('rule' as const), tool, effect }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('dead claim' as const),
      tool: fc.constantFrom('crm.note' as const, 'email.send' as const, 'sms.send' as const),
      subject,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('expire' as const), which: fc.nat({ max: 7 }) }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constantFrom('crash' as const, 'time passes' as const, 'time passes' as const) }),
  },
  { weight: 1, arbitrary: fc.constant({ do: 'cancel' as const }) },
)

export const runHistory: fc.Arbitrary<RunHistory> = fc.record({
  turns: fc.array(turn, { minLength: 1, maxLength: 4 }),
  rules: fc.record({ 'crm.search': readEffect, 'crm.note': effect, 'email.send': effect, 'sms.send': effect }),
  maxTurns: fc.oneof(
    { weight: 4, arbitrary: fc.constant(6) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 4 }) },
  ),
  maxToolCalls: fc.oneof(
    { weight: 4, arbitrary: fc.constant(20) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 8 }) },
  ),
  events: fc.array(event, { minLength: 4, maxLength: 24 }),
  home: fc.record({ how: answer, said, alone: fc.boolean() }),
})
