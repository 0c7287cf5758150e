import { describe, expect, test } from 'vitest'
import { FREE_FOLDERS, IMPORT_CONTRACT, partOf } from './contract.ts'
import { importsOf } from './imports.ts'
import { readSources, sourceFile } from './source-files.ts'
import { tokensOf } from './tokens.ts'
import { lineOf, violationsOf } from './violations.ts'

const files = readSources(['src', 'simulators', 'examples', ...FREE_FOLDERS])

describe('the sources', () => {
  test('keep the import contract and the rules of style', () => {
    expect(files.flatMap((file) => violationsOf(file)).map(lineOf)).toEqual([])
  })

  test('every part of the contract has files, so that no rule is about nothing', () => {
    const counted = Map.groupBy(files, (file) => partOf(file.path))
    const empty = Object.keys(IMPORT_CONTRACT).filter((part) => (counted.get(part)?.length ?? 0) === 0)
    expect(empty).toEqual([])
    expect(files.filter((file) => partOf(file.path) === null).length).toBeGreaterThan(30)
    expect(files.length).toBeGreaterThan(250)
  })

  test('every file of src is read for what it imports, and the imports between parts are seen', () => {
    const invoker = files.find((file) => file.path === 'src/tools/default-invoker.ts')
    const imported = invoker?.imports.map(({ specifier, kind }) => `${kind} ${specifier}`)
    expect(imported).toContain('value ../decision/path.ts')
    expect(imported).toContain('type ../decision/accrual.ts')
    const silent = files.filter((file) => file.path.startsWith('src/') && file.imports.length === 0)
    expect(silent.length).toBeLessThan(files.length / 4)
  })
})

describe('the scanner', () => {
  test.each([
    ["import 'a'", 'value a'],
    ["import a from 'a'", 'value a'],
    ["import * as a from 'a'", 'value a'],
    ["import a, { b } from 'a'", 'value a'],
    ["import { type A } from 'a'", 'value a'],
    ["import type { A } from 'a'", 'type a'],
    ["import type A from 'a'", 'type a'],
    ["import type * as A from 'a'", 'type a'],
    ["import type from 'a'", 'value a'],
    ["import type, { A } from 'a'", 'value a'],
    ["import data from './a.json' with { type: 'json' }", 'value ./a.json'],
    ["export { a } from 'a'", 'value a'],
    ["export { type A } from 'a'", 'value a'],
    ["export type { A } from 'a'", 'type a'],
    ["export * from 'a'", 'value a'],
    ["export * as a from 'a'", 'value a'],
    ["export type * from 'a'", 'type a'],
    ["const a = await import('a')", 'dynamic a'],
    ['const a = await import(`a`)', 'dynamic a'],
    ["type A = import('a').A", 'dynamic a'],
    ['const a = await import(name)', 'dynamic <computed>'],
    ["const a = await import('a' + name)", 'dynamic <computed>'],
    ['const a = await import(`a/${name}`)', 'dynamic <computed>'],
    ["const a = require('a')", 'value a'],
    ["const t = `${await import('a')}`", 'dynamic a'],
  ])('reads %s', (source, expected) => {
    expect(importsOf(tokensOf(source).tokens).map(({ kind, specifier }) => `${kind} ${specifier}`)).toEqual([expected])
  })

  test.each([
    "// import 'a'",
    "/* import 'a' */",
    'const text = "import \'a\'"',
    'const text = `import "a"`',
    "const pattern = /import 'a'/",
    'const url = import.meta.url',
    "loader.import('a')",
    'export { a, b }',
    'export const from = 1',
    "export type { A }\nconst from = 'a'",
    'export default class {}',
  ])('sees no import in %s', (source) => {
    expect(importsOf(tokensOf(source).tokens)).toEqual([])
  })

  test('refuses what it cannot read instead of skipping it', () => {
    expect(() => sourceFile('src/tools/x.ts', "const a = 'never ends")).toThrow('src/tools/x.ts')
    expect(() => sourceFile('src/tools/x.ts', 'const a = `never ends ${1}')).toThrow('src/tools/x.ts')
  })
})

describe('a planted file is found out', () => {
  test.each([
    ['src/decision/x.ts', "import { ok } from '../tools/models.ts'", 'may import only types'],
    ['src/decision/x.ts', "export { ok } from '../tools/models.ts'", 'may import only types'],
    ['src/decision/x.ts', "import { readFile } from 'node:fs/promises'", 'may not import a package'],
    ['src/decision/x.ts', 'const now = Date.now()', 'decisions are pure'],
    ['src/decision/x.ts', 'const now = new Date()', 'decisions are pure'],
    ['src/decision/x.ts', 'const luck = Math.random()', 'decisions are pure'],
    ['src/decision/x.ts', 'const name = process.title', 'decisions are pure'],
    ['src/decision/x.ts', 'let seen = 0', 'decisions keep nothing'],
    ['src/tools/x.ts', "import type { Kysely } from 'kysely'", 'may not import a package'],
    ['src/tools/x.ts', "import { Hono } from 'hono'", 'may not import a package'],
    ['src/tools/x.ts', "const { generateText } = await import('ai')", 'may not import a package'],
    ['src/tools/x.ts', "import type { Database } from '../storage/database.ts'", 'may not import'],
    ['src/server/x.ts', "import { Pool } from 'pg'", 'may not import a package'],
    ['src/core.ts', "import { PGlite } from '@electric-sql/pglite'", 'may not import a package'],
    ['src/storage/x.ts', "import { Pool } from 'pg'", 'may not import a package'],
    ['src/runs/x.ts', 'const rows = sql`SELECT 1`', 'only storage holds SQL'],
    ['src/server/x.ts', "const text = 'select id from agent.runs'", 'only storage holds SQL'],
    ['src/handlers/x.ts', 'const text = `DELETE FROM ${table}`', 'only storage holds SQL'],
    ['src/engines/embedded/x.ts', "import { streamText } from 'ai'", 'may not import a package'],
    ['src/runs/x.ts', "import type { PgBoss } from 'pg-boss'", 'may not import a package'],
    ['src/storage/x.ts', 'const url = process.env.DATABASE_URL', 'only server and cli read the environment'],
    ['src/handlers/x.ts', "const url = process['env']", 'only server and cli read the environment'],
    ['src/handlers/x.ts', "import { env } from 'node:process'", 'the process is a global'],
    ['src/handlers/x.ts', "import { pgDatabase } from '../storage/pg/index.ts'", 'may not import'],
    ['src/handlers/x.ts', "import type { Database } from '../storage/database.ts'", 'may not import'],
    ['src/handlers/x.ts', "import { scopedDb } from '../storage/scoped-db.ts'", 'may import only types'],
    ['src/handlers/x.ts', "import { failure } from '../tools/result.ts'", 'a handler builds no error'],
    ['src/server/x.ts', "import { createTransport } from 'nodemailer'", 'may not import a package'],
    ['src/frameworks/ai-sdk/x.ts', "import type { Credential } from '../../connections/resolver.ts'", 'may not import'],
    ['src/server/x.ts', "import { scriptedModel } from '../testing/scripted-model.ts'", 'may not import'],
    ['src/testing/x.ts', "import { startSmtpServer } from '../../simulators/smtp-server.ts'", 'may not import'],
    ['src/cli/x.ts', "import { outreach } from '../../examples/outreach/agent.ts'", 'may not import'],
    ['src/runs/x.ts', "const more = await import('../../bench/floor.ts')", 'may not import'],
    ['src/runs/x.ts', 'const more = await import(name)', 'computed import'],
    ['examples/x.ts', "import { createCore } from '../src/core.ts'", 'may not import'],
    ['src/elsewhere/x.ts', 'export const a = 1', 'no part of the contract'],
    ['src/loose.ts', 'export const a = 1', 'no part of the contract'],
    ['src/tools/x.ts', 'const value: any = 1', 'no any'],
    ['src/tools/x.ts', 'const list = value as any[]', 'no any'],
    ['src/tools/x.ts', 'const map = new Map<string, any>()', 'no any'],
    ['src/tools/x.ts', 'type Loose = any', 'no any'],
    ['src/tools/x.ts', 'type Get = () => any', 'no any'],
    ['src/tools/x.ts', 'export default 1', 'no default exports'],
    ['src/index.ts', "export * from './bailiff.ts'", 'names are written out'],
    ['src/tools/utils.ts', 'export const a = 1', 'a name that says nothing'],
    ['src/tools/string-helpers.ts', 'export const a = 1', 'a name that says nothing'],
    ['src/tools/common/x.ts', 'export const a = 1', 'a name that says nothing'],
    ['src/tools/types.ts', 'export const a = 1', 'a name that says nothing'],
    ['src/policy/manager.ts', 'export const a = 1', 'a name that says nothing'],
    ['src/tools/x.ts', 'const run = eval', 'no code from text'],
    ['src/tools/x.ts', "const run = new Function('return 1')", 'no code from text'],
    ['src/tools/x.ts', '// oxlint-disable\nexport const a = 1', 'no suppression'],
    ['src/tools/x.ts', '/* eslint-disable import/no-cycle */', 'no suppression'],
    ['src/tools/x.ts', '// oxlint-disable-next-line typescript/no-explicit-any', 'no suppression'],
    ['src/tools/x.ts', '// oxlint-disable-next-line max-params -- it reads best', 'no suppression'],
    ['src/tools/x.ts', '// @ts-expect-error', 'no suppression'],
    ['src/tools/x.test.ts', '// @ts-ignore', 'no suppression'],
    ['src/tools/x.ts', "import { a } from './nowhere.ts'", 'an import leads nowhere'],
    ['src/tools/x.ts', "import { a } from './models'", 'an import ends in its file ending'],
  ])('%s: %s', (path, source, rule) => {
    const found = violationsOf(sourceFile(path, source)).map(lineOf)
    expect(found.join('\n')).toContain(rule)
  })

  test.each([
    ['src/decision/x.ts', "import type { ToolSpec } from '../tools/models.ts'"],
    ['src/decision/x.ts', "import { covers } from './coverage.ts'\nexport const late = (at: Date) => new Date(at)"],
    ['src/tools/x.ts', "const signal = AbortSignal.any([])\nconst texts = { any: 'any', from: 'take one from many' }"],
    ['src/tools/x.ts', 'const found = names.reduce((any, name) => `${any} || ${name}`, first)'],
    ['src/handlers/x.ts', "import type { ScopedSchema } from '../storage/scoped-db.ts'"],
    ['src/handlers/email/x.ts', "const { createTransport } = await import('nodemailer')"],
    ['src/server/x.ts', 'const port = process.env.BAILIFF_PORT'],
    ['src/storage/x.ts', 'const rows = sql`SELECT 1`'],
    ['src/tools/x.ts', '// oxlint-disable-next-line no-control-regex'],
    ['src/tools/x.test.ts', "import { world } from '../../test/setup/world.ts'"],
  ])('and nothing is found in %s: %s', (path, source) => {
    expect(violationsOf(sourceFile(path, source)).map(lineOf)).toEqual([])
  })
})
