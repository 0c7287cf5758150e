import { expect, test } from 'vitest'
import { statement, unnamed } from './statement.ts'

test('a name stands for one text in the whole program', () => {
  const first = statement('unique.test', 'SELECT 1')
  expect(statement('unique.test', 'SELECT 1')).toStrictEqual(first)
  expect(() => statement('unique.test', 'SELECT 2')).toThrow('unique.test')
})

test.each(['', 'Upper', 'with space', '1st', 'a'.repeat(64)])('%j is no name', (name) => {
  expect(() => statement(name, 'SELECT 1')).toThrow(/Bad statement name/)
})

test('an unnamed statement has no name to keep a plan under', () => {
  expect(unnamed('SELECT 1')).toStrictEqual({ name: '', text: 'SELECT 1' })
})
