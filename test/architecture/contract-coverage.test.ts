import { describe, expect, test } from 'vitest'
import { CONTRACT_IDS, isPlanned } from './contract-ids.ts'
import { readSources } from './source-files.ts'
import { idsOf, titlesOf, unrunOf } from './test-titles.ts'
import { tokensOf } from './tokens.ts'

const files = readSources(['src', 'test', 'simulators', 'examples']).filter((file) => file.path.endsWith('.test.ts'))
const titles = files.flatMap((file) => titlesOf(file.tokens))
const carried = new Set(titles.flatMap(idsOf))
const ids = Object.keys(CONTRACT_IDS)

describe('the contract', () => {
  test('has 69 minimum tests and 53 rules, numbered without a gap', () => {
    const numbered = (letter: string, count: number) =>
      Array.from({ length: count }, (_, index) => `${letter}${String(index + 1).padStart(2, '0')}`)
    expect(ids).toEqual([...numbered('T', 69), ...numbered('R', 53)])
  })

  test('every row that is not planned for later is the title of a test', () => {
    expect(ids.filter((id) => !isPlanned(id) && !carried.has(id))).toEqual([])
  })

  test('no row is called planned that already has a test', () => {
    expect(ids.filter((id) => isPlanned(id) && carried.has(id))).toEqual([])
  })

  test('no title carries an id that the contract does not have', () => {
    expect([...carried].filter((id) => !ids.includes(id))).toEqual([])
  })

  test('no test is skipped, planned, expected to fail or run alone', () => {
    expect(files.flatMap(({ path, tokens }) => unrunOf(tokens).map((line) => `${path}:${line}`))).toEqual([])
    expect(unrunOf(tokensOf("test.only('x', f)\ndescribe.skip('y', f)\ntest('z', f)").tokens)).toEqual([1, 2])
  })

  test('the titles are really read', () => {
    expect(files.length).toBeGreaterThan(60)
    expect(titles.length).toBeGreaterThan(files.length * 4)
  })
})

describe('a title', () => {
  test.each([
    ["test('T01 says so', () => {})", ['T01']],
    ["it('T01 R02 says so', () => {})", ['T01', 'R02']],
    ["describe('R02 says so', () => {})", ['R02']],
    ["test.each([['a)', f(1)], [`(`, 2]])('T01 says %s', () => {})", ['T01']],
    ["describe.each(CASES)('T01 says %s', () => {})", ['T01']],
    ["test.skipIf(slow)('T01 says so', () => {})", ['T01']],
    ['test(`T01 says ${what}`, () => {})', ['T01']],
    ["test('says so about T01', () => {})", []],
    ["test('T1 says so', () => {})", []],
    ["test.skip('T01 says so', () => {})", []],
    ["test.todo('T01 says so')", []],
    ["// test('T01 says so')", []],
    ['const text = "test(\'T01 says so\')"', []],
    ["pattern.test('T01')", []],
  ])('%s', (source, expected) => {
    expect(titlesOf(tokensOf(source).tokens).flatMap(idsOf)).toEqual(expected)
  })
})
