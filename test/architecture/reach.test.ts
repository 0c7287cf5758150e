import { expect, test } from 'vitest'
import { isTest, readSources, type SourceFile } from './source-files.ts'
import { violationsOf } from './violations.ts'

const files = readSources(['src']).filter((file) => !isTest(file.path))

/** Files whose code has the given words and marks one after the other. */
function filesWith(...phrase: readonly string[]): string[] {
  const has = ({ tokens }: SourceFile): boolean =>
    tokens.some((_, index) => phrase.every((text, offset) => tokens[index + offset]?.text === text))
  return files.filter(has).map((file) => file.path)
}

test('R01 the code of a tool is run in one place', () => {
  expect(filesWith('handler', '.', 'execute', '(')).toEqual(['src/tools/execute.ts'])
})

test('R02 what drives an agent imports no storage, no route and no connection, and names no credential', () => {
  const drivers = files.filter(({ path }) => /^src\/(frameworks|runs)\//.test(path))
  expect(drivers.length).toBeGreaterThan(15)
  const reached = drivers.flatMap(({ path, imports }) =>
    imports.filter(({ specifier }) => /\/(storage|server|connections|handlers)\//.test(specifier)).map(() => path),
  )
  expect(reached).toEqual([])
  const named = drivers.filter(({ tokens }) =>
    tokens.some(({ text }) => text === 'Credential' || text === 'SecretSource'),
  )
  expect(named.map(({ path }) => path)).toEqual([])
})

test('T42 R28 no handler builds an error of its own', () => {
  const handlers = files.filter(({ path }) => path.startsWith('src/handlers/'))
  expect(handlers.length).toBeGreaterThan(10)
  expect(
    handlers.flatMap((file) => violationsOf(file)).filter(({ rule }) => rule === 'a handler builds no error'),
  ).toEqual([])
})

test('R53 nothing in the package makes code from text', () => {
  expect(files.flatMap((file) => violationsOf(file)).filter(({ rule }) => rule === 'no code from text')).toEqual([])
})
