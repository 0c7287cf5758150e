import { describe, expect, test } from 'vitest'
import { compileExpression } from './expression.ts'
import { factNameProblem } from '../tools/fact-name.ts'
import { isOfFactType } from './vocabulary.ts'

describe('the name of a fact', () => {
  test.each(['recipient_is_new', 'a', 'x9', 'a'.repeat(48), 'types', 'in_stock'])(
    '%s can be read by a condition',
    (name) => {
      expect(factNameProblem(name)).toBeNull()
      expect(compileExpression(`${name} == 1`, { facts: new Map([[name, 'int']]) }).kind).toBe('compiled')
    },
  )

  test.each([
    'is-new',
    'Is_new',
    '9lives',
    '_x',
    '',
    'a'.repeat(49),
    'a b',
    'é',
    '__proto__',
    'tool',
    'principal',
    'run',
    'arguments',
    'import',
    'in',
    'true',
    'null',
    'as',
    'package',
    'namespace',
    'prototype',
    'string',
    'list',
    'type',
    'google',
    'cel',
    'null_type',
  ])('%j is none', (name) => {
    expect(factNameProblem(name)).not.toBeNull()
  })
})

describe('the type of a fact', () => {
  test.each([
    ['bool', true],
    ['string', ''],
    ['int', -3],
    ['int', 2 ** 53 - 1],
    ['double', 0.1],
    ['double', 1],
    ['list', []],
    ['map', {}],
  ] as const)('%s holds %j', (type, value) => {
    expect(isOfFactType(type, value)).toBe(true)
  })

  test.each([
    ['bool', 1],
    ['bool', 'true'],
    ['bool', null],
    ['string', 1],
    ['int', 1.5],
    ['int', 2 ** 53],
    ['int', 1n],
    ['int', '1'],
    ['double', Number.NaN],
    ['double', Infinity],
    ['double', '1'],
    ['list', {}],
    ['list', 'a'],
    ['map', []],
    ['map', null],
    ['map', undefined],
  ] as const)('%s does not hold %s', (type, value) => {
    expect(isOfFactType(type, value)).toBe(false)
  })
})
