import { describe, expect, test } from 'vitest'
import type { JsonValue } from '../tools/json.ts'
import { ExpressionFault } from './expression.ts'
import { compileValue, type ValueExpression } from './value-expression.ts'

const variables = { input: 'json', steps: 'map', item: 'json', index: 'int' } as const

function compiled(source: string): ValueExpression {
  const result = compileValue(source, { variables })
  if (result.kind === 'invalid') throw new Error(result.message)
  return result.expression
}

const valueOf = (source: string, given: Readonly<Record<string, JsonValue>> = {}): JsonValue =>
  compiled(source).evaluate({ input: null, steps: {}, item: null, index: 0, ...given })

describe('an expression that answers a value', () => {
  test.each<[string, Readonly<Record<string, JsonValue>>, JsonValue]>([
    ['input.name', { input: { name: 'Jo' } }, 'Jo'],
    ['"a" + "b"', {}, 'ab'],
    ['size(input)', { input: [1, 2] }, 2],
    ['index + 1', { index: 2 }, 3],
    ['input[index]', { input: ['a', 'b'], index: 1 }, 'b'],
    ['input.filter(c, c.size > 10.0)', { input: [{ size: 11 }, { size: 9 }] }, [{ size: 11 }]],
    [
      'input.map(c, c.size > 10.0, c.name)',
      {
        input: [
          { size: 11, name: 'a' },
          { size: 9, name: 'b' },
        ],
      },
      ['a'],
    ],
    ['has(steps.a) ? steps.a.output : null', { steps: {} }, null],
    ['steps["a"].output', { steps: { a: { output: 1 } } }, 1],
    ['item', { item: { any: ['thing'] } }, { any: ['thing'] }],
    ['[size(input), 2]', { input: [] }, [0, 2]],
    ['input.total + 1.5', { input: { total: 1 } }, 2.5],
  ])('%s', (source, given, value) => {
    expect(valueOf(source, given)).toEqual(value)
  })

  test('says what it reads of each name, and where it reads one as a whole', () => {
    const readsOf = (source: string) => compiled(source).reads.map(({ variable, key }) => [variable, key])
    expect(readsOf('steps.a.output + steps["b"].output')).toEqual([
      ['steps', 'a'],
      ['steps', 'b'],
    ])
    expect(readsOf('has(steps.c) && size(steps) > 0')).toEqual([
      ['steps', 'c'],
      ['steps', null],
    ])
    expect(readsOf('steps[input.name]')).toEqual([
      ['steps', null],
      ['input', 'name'],
    ])
    expect(readsOf('input.filter(x, x.name == item)')).toEqual([
      ['input', null],
      ['item', null],
    ])
  })

  test.each([
    ['', 'an expression is empty'],
    ['inpt', 'did you mean input'],
    ['tool', 'there is no tool'],
    ['principal.agent', 'there is no principal'],
    ['arguments.to', 'there is no arguments'],
    ['input.map(steps, 1)', 'means something else already'],
    ['input.filter(a, input.exists(b, b == a))', 'does not combine with another macro'],
    ['input.matches("a+")', 'regular expressions'],
    ['"x".repeat(9)', 'there is no function'],
    ['input.size + 1', 'write 1.0 instead of 1'],
    [`"${'x'.repeat(2_001)}"`, 'at most 2000 characters'],
  ])('is refused when it says %s', (source, message) => {
    const result = compileValue(source, { variables })
    expect(result).toMatchObject({ kind: 'invalid', message: expect.stringContaining(message) })
  })

  test('is refused where true or false is needed and it can be seen to answer something else', () => {
    const needed = (source: string) => compileValue(source, { variables, answers: 'bool' }).kind
    expect(['size(input)', '"yes"', 'input.ok', 'input.ok == true'].map(needed)).toEqual([
      'invalid',
      'invalid',
      'compiled',
      'compiled',
    ])
  })

  test.each([
    ['input.missing', 'there is no field missing'],
    ['input[3]', 'no item at that index'],
    ['9007199254740993 - 1', 'at most 9007199254740991'],
    ['9007199254740991 + 1', 'too large for JSON'],
  ])('has no value: %s', (source, message) => {
    const evaluate = (): JsonValue => valueOf(source, { input: source.includes('[') ? [] : {} })
    expect(evaluate).toThrow(message)
  })

  test('costs what it may, whatever the values are', () => {
    const many = Array.from({ length: 5_000 }, (_, index) => index)
    expect(() => valueOf('input.filter(x, x in input)', { input: many })).toThrow(ExpressionFault)
  })

  test('reads own keys alone, and never what a name does not hold', () => {
    expect(() => valueOf('input.constructor', { input: {} })).toThrow(ExpressionFault)
    expect(() => compiled('input').evaluate({})).toThrow('input has no value')
  })
})
