import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { MAX_CSV_BYTES, MAX_CSV_PROBLEMS, MAX_CSV_ROWS, parseCsvInput, readCsvInput } from './csv-input.ts'

const folders: string[] = []
afterEach(async () => {
  await Promise.all(folders.splice(0).map((folder) => rm(folder, { recursive: true })))
})

async function fileWith(content: string | Uint8Array): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-csv-'))
  folders.push(folder)
  const path = join(folder, 'input.csv')
  await writeFile(path, content)
  return path
}

function rowsOf(text: string) {
  const input = parseCsvInput(text)
  if (input.kind !== 'rows') throw new Error(JSON.stringify(input.problems))
  return input
}

function problemsOf(text: string) {
  const input = parseCsvInput(text)
  if (input.kind !== 'invalid') throw new Error('the text was accepted')
  return input.problems
}

describe('what is read', () => {
  test('a row becomes an object of its columns, with the line it starts on', () => {
    expect(rowsOf('name,email\nJo,jo@acme.test\n\nSam,sam@acme.test\n')).toEqual({
      kind: 'rows',
      columns: ['name', 'email'],
      rows: [
        { name: 'Jo', email: 'jo@acme.test' },
        { name: 'Sam', email: 'sam@acme.test' },
      ],
      lines: [2, 4],
    })
  })

  test('a byte order mark, CRLF, quotes, doubled quotes and commas in quotes are understood', () => {
    const { rows } = rowsOf('\uFEFFname,company\r\n"Smith, Jo","The ""Acme"" Company"\r\n')
    expect(rows).toEqual([{ name: 'Smith, Jo', company: 'The "Acme" Company' }])
  })

  test('a quoted value may span lines, and the rows below it still name their own line', () => {
    const { rows, lines } = rowsOf('name,note\r\n"Jo","first\r\nsecond"\r\nSam,third')
    expect(rows).toEqual([
      { name: 'Jo', note: 'first\nsecond' },
      { name: 'Sam', note: 'third' },
    ])
    expect(lines).toEqual([2, 4])
  })

  test('spaces around values and names are dropped, inside quotes they are kept', () => {
    expect(rowsOf(' name , email \n Jo , " jo "\n').rows).toEqual([{ name: 'Jo', email: ' jo ' }])
  })

  test('a column called __proto__ is a column like any other', () => {
    const [row] = rowsOf('__proto__,a\nx,y\n').rows
    expect(Object.getOwnPropertyNames(row)).toEqual(['__proto__', 'a'])
    expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
  })

  test('every table comes back as it was written, whatever its values hold', () => {
    const value = fc
      .string({ unit: 'grapheme', maxLength: 12 })
      .map((text) => text.replace(/\r\n?/g, '\n').replaceAll('\0', ''))
    const table = fc.array(fc.tuple(value, value), { minLength: 1, maxLength: 8 })
    const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`
    fc.assert(
      fc.property(table, (rows) => {
        const text = ['a,b', ...rows.map((row) => row.map(quoted).join(','))].join('\r\n')
        expect(rowsOf(text).rows).toEqual(rows.map(([a, b]) => ({ a, b })))
      }),
    )
  })
})

describe('what is refused', () => {
  test.each([
    ['', 1, 'the file is empty'],
    ['\n\n', 1, 'the file is empty'],
    ['name,email\n', 1, 'no rows follow the header'],
    ['name,Name\nJo,x\n', 1, 'column "Name" appears twice'],
    ['name,,email\nJo,x,y\n', 1, 'column 2 has no name'],
    ['name;email\nJo;x\n', 1, 'the columns are separated by semicolons'],
    ['name\temail\nJo\tx\n', 1, 'the columns are separated by tabs'],
    ['name,email\nJo\n', 2, '1 value for 2 columns'],
    ['name,email\nJo,x,y\n', 2, '3 values for 2 columns'],
    ['name,email\n\n"Jo,x\nSam,y\n', 3, 'a quote is opened and never closed'],
    ['name,email\nJo,x\n"Sam"my,y\n', 3, 'a quote stands inside a value'],
    ['name,email\nJo,4"x\n', 2, 'a quote stands inside a value'],
  ])('%j is refused on line %i: %s', (text, line, message) => {
    const [first, ...others] = problemsOf(text)
    expect(first).toMatchObject({ line, message })
    expect(first?.remedy).toMatch(/\.$/)
    expect(others).toEqual([])
  })

  test('a broken quote ends the reading: what was found above it is reported, guesses below are not', () => {
    const problems = problemsOf('a,b\n1\n"x"y,2\n3\n4,5,6\n')
    expect(problems.map(({ line }) => line)).toEqual([2, 3])
  })

  test('all problems are listed up to a limit, and the last entry says how many are left', () => {
    const problems = problemsOf(`a,b\n${'1\n'.repeat(50)}`)
    expect(problems).toHaveLength(MAX_CSV_PROBLEMS)
    expect(problems[0]).toMatchObject({ line: 2 })
    expect(problems.at(-1)).toMatchObject({ line: null, message: '31 more problems' })
  })

  test('more rows than the limit are refused, exactly the limit is read', () => {
    expect(rowsOf(`a\n${'1\n'.repeat(MAX_CSV_ROWS)}`).rows).toHaveLength(MAX_CSV_ROWS)
    expect(problemsOf(`a\n${'1\n'.repeat(MAX_CSV_ROWS + 1)}`)).toMatchObject([
      { line: null, message: '10001 rows are more than 10000' },
    ])
  })

  test('a row that never ends is refused and not collected', () => {
    expect(problemsOf(`a,b\n"${'x'.repeat(200_000)},1\n`)).toMatchObject([{ line: 2 }])
  })
})

describe('files', () => {
  test('a file is read from disk', async () => {
    expect(await readCsvInput(await fileWith('name\nJosé\n'))).toMatchObject({ kind: 'rows', rows: [{ name: 'José' }] })
  })

  test('a missing file, a directory and a device are named as such', async () => {
    const missing = join(tmpdir(), 'bailiff-no-such-file.csv')
    expect(await readCsvInput(missing)).toMatchObject({
      problems: [{ line: null, message: `${missing} does not exist` }],
    })
    expect(await readCsvInput(tmpdir())).toMatchObject({
      problems: [{ line: null, message: `${tmpdir()} is a directory` }],
    })
    expect(await readCsvInput('/dev/zero')).toMatchObject({
      problems: [{ message: '/dev/zero is not a regular file' }],
    })
  })

  test('a file larger than the limit is refused', async () => {
    const path = await fileWith(new Uint8Array(MAX_CSV_BYTES + 1).fill(0x61))
    expect(await readCsvInput(path)).toMatchObject({
      problems: [{ line: null, message: `${path} is larger than 5 MB` }],
    })
  })

  test('text in another encoding is refused with its line', async () => {
    const latin = Buffer.from('name\nJo\nJosé\n', 'latin1')
    expect(await readCsvInput(await fileWith(latin))).toMatchObject({
      problems: [{ line: 3, message: 'the text is not valid UTF-8' }],
    })
    const wide = Buffer.from('\uFEFFname\nJo\n', 'utf16le')
    expect(await readCsvInput(await fileWith(wide))).toMatchObject({
      problems: [{ line: 1, message: 'the file is UTF-16 text' }],
    })
  })

  test('binary data and spreadsheets are recognised', async () => {
    expect(await readCsvInput(await fileWith('a,b\n1,\0\n'))).toMatchObject({
      problems: [{ line: 2, message: 'the file holds binary data' }],
    })
    expect(await readCsvInput(await fileWith('PK\u0003\u0004rest'))).toMatchObject({
      problems: [{ remedy: 'Export the sheet as "CSV UTF-8".' }],
    })
  })
})
