import { expect, test } from 'vitest'
import { KnownTaints } from './known-taints.ts'

test('a tree knows the sources that were added to it, and no others', () => {
  const known = new KnownTaints()
  known.add('root', 'web.fetch')
  expect(known.has('root', 'web.fetch')).toBe(true)
  expect(known.has('root', 'mail.read')).toBe(false)
  expect(known.has('other', 'web.fetch')).toBe(false)
})

test('the oldest are forgotten first, so that a process that runs for months keeps its size', () => {
  const known = new KnownTaints(2)
  for (const source of ['a', 'b', 'c']) known.add('root', source)
  expect(['a', 'b', 'c'].map((source) => known.has('root', source))).toEqual([false, true, true])
})
