import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ERROR_CODES } from '../../src/tools/errors.ts'
import { CONTRACT_IDS, isPlanned } from './contract-ids.ts'
import { IMPORT_CONTRACT } from './contract.ts'
import { ROOT } from './source-files.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** The rows of every table of a document, cell by cell, without their heads. */
function rowsOf(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => line.startsWith('|') && !/^\|[-| ]+\|$/.test(line))
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
}

const codeOf = (cell: string | undefined): string => /^`([^`]+)`$/.exec(cell ?? '')?.[1] ?? ''

test('docs/errors.md is the table of codes', () => {
  const documented = rowsOf(read('docs/errors.md')).flatMap(([code, status, retry, title]) =>
    Object.hasOwn(ERROR_CODES, codeOf(code))
      ? [[codeOf(code), { status: Number(status), retryable: retry === 'yes', title }]]
      : [],
  )
  expect(Object.fromEntries(documented)).toEqual(ERROR_CODES)
})

test('docs/dependencies.md gives a reason for every package that is installed or brought along', () => {
  const { dependencies, peerDependencies } = JSON.parse(read('package.json')) as Record<string, Record<string, string>>
  const reasons = new Map(rowsOf(read('docs/dependencies.md')).map(([name, ...why]) => [codeOf(name), why.join('')]))
  reasons.delete('')
  const named = [...Object.keys(dependencies ?? {}), ...Object.keys(peerDependencies ?? {})]
  expect([...reasons.keys()].toSorted()).toEqual(named.toSorted())
  expect([...reasons.values()].filter((why) => why.length < 10)).toEqual([])
})

test('ARCHITECTURE.md says of every part what it may import', () => {
  const parts = rowsOf(read('ARCHITECTURE.md')).map(([part]) => codeOf(part))
  expect(Object.keys(IMPORT_CONTRACT).filter((part) => !parts.includes(part))).toEqual([])
})

describe('ids', () => {
  test.each(['README.md', 'docs/guarantees.md', 'docs/decision-path.md', 'ARCHITECTURE.md'])(
    'of %s stand for rows that have a test',
    (path) => {
      const ids = read(path).match(/\b[TR]\d{2}\b/g) ?? []
      expect(ids.filter((id) => !Object.hasOwn(CONTRACT_IDS, id) || isPlanned(id))).toEqual([])
    },
  )

  test('docs/guarantees.md has every row that is not planned for later', () => {
    const documented = new Map(rowsOf(read('docs/guarantees.md')).map(([id, says]) => [id, says]))
    const rows = Object.entries(CONTRACT_IDS).filter(([id]) => !isPlanned(id))
    expect(rows.filter(([id, says]) => documented.get(id) !== says)).toEqual([])
  })
})

/** What a reader outside cannot open, and what only its author could mean. */
const PRIVATE = /\b(TODO|FIXME|XXX)\b|\/(work|home|root|Users)\/|(?:issue|PR|pull request) ?#\d|\bsession \d/i

test.each(['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md'])(
  '%s speaks of the project alone',
  (path) => {
    expect(
      read(path)
        .split('\n')
        .filter((line) => PRIVATE.test(line)),
    ).toEqual([])
  },
)
