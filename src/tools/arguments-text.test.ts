import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ARGUMENT_LIMITS, parseArgumentsText } from './arguments-text.ts'
import { validateArguments } from './arguments.ts'
import type { JsonValue } from './json.ts'

function refusal(text: string): string {
  const parsed = parseArgumentsText(text)
  return parsed.kind === 'invalid' ? parsed.message : 'accepted'
}

const json = fc.jsonValue({ maxDepth: 5, stringUnit: 'grapheme' }) as fc.Arbitrary<JsonValue>

describe('a text that says one thing', () => {
  test('is read as JSON.parse reads it', () => {
    fc.assert(
      fc.property(json, fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        const whole = JSON.stringify(value).match(/-?\d+(?:\.\d+)?(?:e[+-]?\d+)?/gi) ?? []
        fc.pre(whole.every((token) => !Number.isInteger(Number(token)) || Number.isSafeInteger(Number(token))))
        expect(parseArgumentsText(text)).toEqual({ kind: 'parsed', value: JSON.parse(text) as unknown })
      }),
    )
  })

  test.each([
    ['{}', {}],
    [' {"a" : [ 1 , {"a":1}, {"a":2} ]\n} ', { a: [1, { a: 1 }, { a: 2 }] }],
    ['{"a":{"b":1},"b":{"a":1}}', { a: { b: 1 }, b: { a: 1 } }],
    ['{"a":"a","b":"\\"a\\":1,\\"a\\":2"}', { a: 'a', b: '"a":1,"a":2' }],
    ['["a","a"]', ['a', 'a']],
    ['{"x":"\\\\","y":"\\""}', { x: '\\', y: '"' }],
    ['{"n":1.0,"m":1e0,"o":100e-2}', { n: 1, m: 1, o: 1 }],
    ['{"n":9007199254740991,"m":-9007199254740991}', { n: 9007199254740991, m: -9007199254740991 }],
    ['{"pi":3.14159265358979323846264338327950288}', { pi: Math.PI }],
    ['{"dime":0.10000000000000001}', { dime: 0.1 }],
    ['{"tiny":5e-324,"zero":0.000e9}', { tiny: 5e-324, zero: 0 }],
    ['{"":1," ":2}', { '': 1, ' ': 2 }],
    ['{"a":1,"A":2,"\\u00e1":3,"a\\u0301":4}', { a: 1, A: 2, á: 3, 'a\u0301': 4 }],
    ['"😀"', '😀'],
    ['"\\ud83d\\ude00"', '😀'],
    ['null', null],
  ])('%s', (text, value) => {
    expect(parseArgumentsText(text)).toEqual({ kind: 'parsed', value })
  })

  test('keeps a key named __proto__ as a key, for whoever judges keys', () => {
    const parsed = parseArgumentsText('{"__proto__":{"to":"x"},"constructor":1}')
    expect(parsed.kind === 'parsed' && Object.keys(parsed.value as object)).toEqual(['__proto__', 'constructor'])
    expect(validateArguments({ type: 'object' }, parsed.kind === 'parsed' ? parsed.value : null).kind).toBe('invalid')
    expect(({} as Record<string, unknown>)['to']).toBeUndefined()
  })
})

describe('a text that could be read in two ways is refused', () => {
  test.each([
    ['{"to":"a","to":"b"}', 'gives the key "to" twice'],
    ['{"to":"a","to":"a"}', 'gives the key "to" twice'],
    ['{"to":"a","t\\u006f":"b"}', 'gives the key "to" twice'],
    ['{"list":[{"id":1,"x":{"id":2},"id":3}]}', 'gives the key "id" twice'],
    ['{"a":1,"b":{"a":[{}]},"a":{}}', 'gives the key "a" twice'],
    ['{"__proto__":1,"__proto__":2}', 'gives the key "__proto__" twice'],
    ['{"":1,"":2}', 'gives the key "" twice'],
    ['{"a\\n":1,"a\\n":2}', 'gives the key "a\\n" twice'],
    ['{"id":9007199254740993}', 'too large to be exact'],
    ['{"id":-9007199254740992}', 'too large to be exact'],
    ['{"id":9007199254740992.4}', 'too large to be exact'],
    ['{"id":1e300}', 'too large to be exact'],
    ['{"n":1e400}', 'too large to be read'],
    ['{"n":-1e999999}', 'too large to be read'],
    ['{"n":1e-400}', 'too small to be read'],
    ['{"n":-0.0001e-999}', 'too small to be read'],
    ['{"n":-0}', 'minus zero'],
    ['[-0.0e5]', 'minus zero'],
    ['{"a":"\\ud800"}', 'lone surrogate'],
    ['{"\\udfff":1}', 'lone surrogate'],
    ['{"a":"\ud800"}', 'lone surrogate'],
    ['{"a":"\\ude00\\ud83d"}', 'lone surrogate'],
  ])('%s', (text, problem) => {
    expect(refusal(text)).toContain(problem)
  })

  test('wherever in it a key stands twice, and however it is spelled', () => {
    interface Written {
      readonly text: string
      readonly twice: boolean
    }
    const spelled = (key: string): fc.Arbitrary<string> =>
      fc.constantFrom(
        JSON.stringify(key),
        `"${key
          .split('')
          .map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)
          .join('')}"`,
      )
    const keys = fc.constantFrom('a', 'b', 'to', '__proto__').chain((key) => fc.tuple(fc.constant(key), spelled(key)))
    const space = fc.constantFrom('', ' ', '\n\t')
    const { text } = fc.letrec<{ text: Written }>((tie) => ({
      text: fc.oneof(
        { maxDepth: 4 },
        fc
          .constantFrom('1', '"to"', '"{\\"a\\":1,\\"a\\":2}"', 'null', '"\\\\"')
          .map((token): Written => ({ text: token, twice: false })),
        fc.tuple(fc.array(tie('text'), { maxLength: 3 }), space).map(([items, gap]): Written => ({
          text: `[${gap}${items.map((item) => item.text).join(`${gap},${gap}`)}${gap}]`,
          twice: items.some((item) => item.twice),
        })),
        fc.tuple(fc.array(fc.tuple(keys, tie('text')), { maxLength: 4 }), space).map(([members, gap]): Written => ({
          text: `{${gap}${members.map(([[, key], member]) => `${key}${gap}:${gap}${member.text}`).join(`${gap},`)}${gap}}`,
          twice:
            members.some(([, member]) => member.twice) || new Set(members.map(([[key]]) => key)).size < members.length,
        })),
      ),
    }))
    fc.assert(
      fc.property(text, (written) => {
        expect(JSON.parse(written.text)).toBeDefined()
        expect([written.text, refusal(written.text) !== 'accepted']).toEqual([written.text, written.twice])
      }),
      { numRuns: 1000 },
    )
  })
})

describe('a text that is no JSON is refused', () => {
  test.each([
    ['', 'is not JSON'],
    ['  ', 'is not JSON'],
    ['{"a":1', 'is not JSON'],
    ['{"a":1,}', 'is not JSON, from character 8'],
    ['{"a":1} {"a":2}', 'is not JSON, from character 9'],
    ['{"a":1}; drop', 'is not JSON, from character 8'],
    ["{'a':1}", 'is not JSON'],
    ['{a:1}', 'is not JSON'],
    ['{"a":01}', 'is not JSON'],
    ['{"a":+1}', 'is not JSON'],
    ['{"a":.5}', 'is not JSON'],
    ['{"a":NaN}', 'is not JSON'],
    ['{"a":0x10}', 'is not JSON'],
    ['{"a":"\n"}', 'is not JSON'],
    ['\ufeff{}', 'is not JSON'],
    ['{"a":1}\0', 'is not JSON'],
    ['// {}\n{}', 'is not JSON'],
    ['to: jo@acme.test', 'is not JSON'],
    ['{"secret": hunter2}', 'is not JSON'],
  ])('%j', (text, problem) => {
    expect(refusal(text)).toContain(problem)
    expect(refusal(text)).not.toMatch(/hunter2|jo@acme/)
  })

  test('whatever text it is: accepted means that JSON.parse reads the same', () => {
    const pieces = fc.constantFrom(...'{ } [ ] : , " "a" "a": 1 -0 -1 .5 e5 1e5 \\ \\u 00 true null x'.split(' '), ' ')
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(text, (candidate) => {
        const parsed = parseArgumentsText(candidate)
        const plain = parsed.kind === 'parsed' ? (JSON.parse(candidate) as unknown) : undefined
        expect(parsed.kind === 'parsed' ? parsed.value : undefined).toEqual(plain)
        expect(parsed.kind === 'invalid' ? parsed.message.length : 0).toBeLessThan(200)
      }),
      { numRuns: 2000 },
    )
  })
})

describe('limits', () => {
  test('depth is counted in brackets, not in what a text holds', () => {
    const lists = (depth: number): string => `${'['.repeat(depth)}${']'.repeat(depth)}`
    expect(parseArgumentsText(lists(ARGUMENT_LIMITS.depth)).kind).toBe('parsed')
    expect(refusal(lists(ARGUMENT_LIMITS.depth + 1))).toContain('deeper than 64')
    expect(refusal(lists(700_000))).toContain('deeper than 64')
    expect(refusal('['.repeat(1_000_000))).toContain('not JSON')
    expect(parseArgumentsText(JSON.stringify({ text: '[{'.repeat(5000) })).kind).toBe('parsed')
  })

  test('a text is refused by its length, unless what it says can still be within the limit', () => {
    const escaped = `{"a":"${'\\u0061'.repeat(200_000)}"}`
    expect(parseArgumentsText(escaped)).toEqual({ kind: 'parsed', value: { a: 'a'.repeat(200_000) } })
    expect(refusal(`{"a":"${'a'.repeat(2_000_000)}"}`)).toContain('longer than')
    expect(refusal(' '.repeat(10_000_000))).toContain('longer than')
  })

  test('much of anything is read in one pass', () => {
    const keys = Array.from({ length: 100_000 }, (_, index) => `"k${index}":0`)
    expect(refusal(`{${keys.join(',')}}`)).toBe('accepted')
    expect(refusal(`{${[...keys, '"k7":1'].join(',')}}`)).toContain('"k7" twice')
    expect(refusal(`["${'\\\\'.repeat(700_000)}"]`)).toBe('accepted')
    expect(refusal(`["${'\\"'.repeat(700_000)}"]`)).toBe('accepted')
    expect(refusal(`[${'1'.repeat(1_000_000)}]`)).toContain('too large to be read')
    expect(refusal(`[0.${'1'.repeat(1_000_000)}]`)).toBe('accepted')
    expect(refusal(`{"${'k'.repeat(500_000)}":1,"${'k'.repeat(500_000)}":1}`)).toMatch(/^.{0,200}twice$/)
  })
})

test('a text handed to a tool as its arguments is refused with the reason, and never parsed for it', () => {
  const judge = (args: string): string => {
    const verdict = validateArguments({ type: 'object' }, args)
    return verdict.kind === 'invalid' ? verdict.message : 'accepted'
  }
  expect(judge('{}')).toBe('arguments must be a JSON object, not a text')
  expect(judge('{"to":1,"to":2}')).toBe(
    'arguments must be a JSON object: the text of the arguments gives the key "to" twice',
  )
  expect(judge('{"to":')).toContain('the text of the arguments is not JSON')
})
