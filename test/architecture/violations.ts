import { existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { FREE_FOLDERS, IMPORT_CONTRACT, partOf, reachOf } from './contract.ts'
import { COMPUTED, packageOf, type Import } from './imports.ts'
import { isTest, ROOT, type SourceFile } from './source-files.ts'
import type { Token } from './tokens.ts'

export interface Violation {
  readonly path: string
  readonly line: number
  readonly rule: string
  readonly found: string
}

/** Whether a path of the project exists; handed in so that a planted file can import what is not there. */
type Exists = (path: string) => boolean

const onDisk: Exists = (path) => existsSync(join(ROOT, path))

/** Everything wrong with one file. Tests may import anything; the rules of style hold for them too. */
export function violationsOf(file: SourceFile, exists: Exists = onDisk): Violation[] {
  return [
    ...styleViolations(file),
    ...targetViolations(file, exists),
    ...(isTest(file.path) ? [] : contractViolations(file)),
  ]
}

export function lineOf({ path, line, rule, found }: Violation): string {
  return `${path}:${line} ${rule}: ${found}`
}

function contractViolations(file: SourceFile): Violation[] {
  const part = partOf(file.path)
  if (part === null) return isFree(file.path) ? [] : [at(file, 1, ['no part of the contract', file.path])]
  return [
    ...file.imports.flatMap((found) => importViolations(file, part, found)),
    ...purityViolations(file, part),
    ...sqlViolations(file, part),
    ...environmentViolations(file, part),
    ...handlerViolations(file, part),
    ...phrases(file, CODE_FROM_TEXT, 'no code from text'),
  ]
}

function isFree(path: string): boolean {
  return FREE_FOLDERS.some((folder) => path.startsWith(`${folder}/`))
}

function importViolations(file: SourceFile, part: string, found: Import): Violation[] {
  const rule = IMPORT_CONTRACT[part]
  if (rule === undefined) return []
  const wanted = `${found.specifier} (${found.kind})`
  if (found.specifier === COMPUTED)
    return LOADS_BY_NAME.has(part) ? [] : [at(file, found.line, ['computed import', wanted])]
  const bare = packageOf(found.specifier)
  if (bare !== null) {
    const allowed = rule.packages.includes(bare) || (bare.startsWith('node:') && rule.packages.includes('node:*'))
    return allowed ? [] : [at(file, found.line, [`${part} may not import a package`, wanted])]
  }
  const target = resolved(file, found)
  if (partOf(target) === part) return []
  const reach = reachOf(rule, target)
  if (reach === 'value' || (reach === 'type' && found.kind === 'type')) return []
  return [at(file, found.line, [`${part} may ${reach === null ? 'not import' : 'import only types of'}`, wanted])]
}

/** Parts whose work is to load a file that a person named. */
const LOADS_BY_NAME: ReadonlySet<string> = new Set(['src/server', 'simulators'])

function targetViolations(file: SourceFile, exists: Exists): Violation[] {
  return file.imports.flatMap((found) => {
    if (found.specifier === COMPUTED || packageOf(found.specifier) !== null) return []
    if (!/\.(ts|json)$/.test(found.specifier))
      return [at(file, found.line, ['an import ends in its file ending', found.specifier])]
    return exists(resolved(file, found)) ? [] : [at(file, found.line, ['an import leads nowhere', found.specifier])]
  })
}

function resolved(file: SourceFile, found: Import): string {
  return posix.join(posix.dirname(file.path), found.specifier)
}

/** Words and marks that follow each other, with `_` for any one token. */
type Phrase = readonly string[]

const IMPURE: readonly Phrase[] = [
  ['Date', '.', 'now'],
  ['new', 'Date', '(', ')'],
  ['Date', '(', ')'],
  ['Math', '.', 'random'],
  ['await'],
  ['async'],
  ...['process', 'globalThis', 'fetch', 'crypto', 'performance', 'console', 'require'].map((name) => [name]),
  ...['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'structuredClone'].map((name) => [name]),
]

function purityViolations(file: SourceFile, part: string): Violation[] {
  if (part !== 'src/decision') return []
  return [...phrases(file, IMPURE, 'decisions are pure'), ...topLevelState(file)]
}

/** A variable outside of every function outlives the decision. */
function topLevelState(file: SourceFile): Violation[] {
  let depth = 0
  return file.tokens.flatMap((token) => {
    if (token.kind === 'mark' && '{(['.includes(token.text)) depth += 1
    if (token.kind === 'mark' && '})]'.includes(token.text)) depth -= 1
    const state = depth === 0 && token.kind === 'word' && (token.text === 'let' || token.text === 'var')
    return state ? [at(file, token.line, ['decisions keep nothing', token.text])] : []
  })
}

/** A statement begins like one, or stands in a text in capitals. */
const SQL = [
  /^\s*(select\s[\s\S]*\sfrom\s|insert\s+into\s|update\s+\S+\s+set\s|delete\s+from\s|truncate\s|(alter|create|drop)\s+(table|schema|index|role|type|function)\s)/i,
  /\b(SELECT\s[\s\S]*\sFROM\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|FOR UPDATE|ON CONFLICT)/,
]

function sqlViolations(file: SourceFile, part: string): Violation[] {
  if (part === 'src/storage' || part.startsWith('src/storage/')) return []
  return file.tokens.flatMap((token, index) => {
    const tagged = token.kind === 'word' && token.text === 'sql' && file.tokens[index + 1]?.kind === 'template'
    const text =
      (token.kind === 'string' || token.kind === 'template') && SQL.some((pattern) => pattern.test(token.text))
    return tagged || text ? [at(file, token.line, ['only storage holds SQL', token.text.slice(0, 60)])] : []
  })
}

const ENVIRONMENT: readonly Phrase[] = [
  ['process', '.', 'env'],
  ['process', '.', 'loadEnvFile'],
  ['process', '[', '_', ']'],
  ['import', '.', 'meta', '.', 'env'],
]

/** Settings are read once, at the edge, and handed down. */
function environmentViolations(file: SourceFile, part: string): Violation[] {
  if (part === 'src/server' || part === 'src/cli') return []
  const renamed = file.imports.filter(({ specifier }) => specifier === 'node:process' || specifier === 'process')
  return [
    ...phrases(file, ENVIRONMENT, 'only server and cli read the environment'),
    ...renamed.map(({ line, specifier }) => at(file, line, ['the process is a global', specifier])),
  ]
}

/** A handler raises; the invoker alone turns what it raised into the code a model reads. */
function handlerViolations(file: SourceFile, part: string): Violation[] {
  if (part !== 'src/handlers') return []
  const built = file.imports.filter((found) => found.specifier.endsWith('tools/result.ts'))
  return [
    ...phrases(file, [['ToolError'], ['ToolResult']], 'a handler builds no error'),
    ...built.map(({ line, specifier }) => at(file, line, ['a handler builds no error', specifier])),
  ]
}

const CODE_FROM_TEXT: readonly Phrase[] = [['eval'], ['new', 'Function'], ['Function', '('], ['node:vm'], ['vm']]

const STRAY_NAME = /(^|\/)(utils?|helpers?|common|types|manager|misc)(\.|\/)|[-.](utils?|helpers?)\.ts$/
const NAMED_BY_DESIGN: ReadonlySet<string> = new Set(['src/runs/manager.ts'])

/** Rules that a file may not switch off for itself. Everything else a linter says is between the file and the linter. */
const UNSUPPRESSIBLE = /max-|no-explicit-any|import\/|no-restricted|no-default-export|ban-ts/
const SUPPRESSION = /^(?:\/\/|\/\*)\s*(?:oxlint|eslint)-disable(-next-line|-line)?(?<rules>[^\n]*)/
const COMPILER_SILENCED = /@ts-(ignore|nocheck|expect-error)/

function styleViolations(file: SourceFile): Violation[] {
  const star = file.tokens.findIndex((token, index) => isWord(token, 'export') && file.tokens[index + 1]?.text === '*')
  return [
    ...(STRAY_NAME.test(file.path) && !NAMED_BY_DESIGN.has(file.path)
      ? [at(file, 1, ['a name that says nothing', file.path])]
      : []),
    ...(mayExportDefault(file.path) ? [] : phrases(file, [['export', 'default']], 'no default exports')),
    ...(star < 0 ? [] : [at(file, file.tokens[star]?.line ?? 1, ['names are written out', 'export *'])]),
    ...anyViolations(file),
    ...file.comments.flatMap(({ text, line }) =>
      isSuppression(file.path, text) ? [at(file, line, ['no suppression', text.trim()])] : [],
    ),
  ]
}

function isSuppression(path: string, comment: string): boolean {
  if (COMPILER_SILENCED.test(comment)) return !path.endsWith('.test-d.ts')
  const rules = SUPPRESSION.exec(comment)?.groups?.['rules']
  if (rules === undefined) return false
  const named = rules.split('--')[0]?.trim() ?? ''
  return named === '' || UNSUPPRESSIBLE.test(named)
}

/** Files that a tool or a deployment loads by its default. */
function mayExportDefault(path: string): boolean {
  return path.endsWith('/bailiff.config.ts') || path.startsWith('test/setup/')
}

/** What stands before a type; a name that happens to be `any` follows a bracket, a dot or a comma. */
const BEFORE_TYPE: ReadonlySet<string> = new Set([':', '<', '>', '|', '&', '=', 'as', 'extends', 'is', 'satisfies'])

function anyViolations(file: SourceFile): Violation[] {
  return file.tokens.flatMap((token, index) => {
    if (!isWord(token, 'any')) return []
    const before = file.tokens[index - 1]
    const after = file.tokens[index + 1]
    const lastArgument = before?.text === ',' && after?.text === '>'
    const isType = lastArgument || (before !== undefined && before.kind !== 'string' && BEFORE_TYPE.has(before.text))
    return isType ? [at(file, token.line, ['no any', 'any'])] : []
  })
}

function phrases(file: SourceFile, wanted: readonly Phrase[], rule: string): Violation[] {
  const code = file.tokens.filter((token) => token.kind === 'word' || token.kind === 'mark' || token.kind === 'string')
  return code.flatMap((token, index) => {
    // A member of something else only shares the name: `job.process`, `options.fetch`.
    if (code[index - 1]?.text === '.' && code[index - 2]?.text !== '.') return []
    const found = wanted.find((phrase) => phrase.every((word, offset) => fits(code[index + offset], word)))
    const isKey = found?.length === 1 && token.kind === 'word' && code[index + 1]?.text === ':'
    return found === undefined || isKey ? [] : [at(file, token.line, [rule, found.join(' ')])]
  })
}

function fits(token: Token | undefined, word: string): boolean {
  if (token === undefined) return false
  if (word === '_') return true
  return token.text === word && (token.kind !== 'string' || word.includes(':'))
}

function isWord(token: Token | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text
}

function at(file: SourceFile, line: number, [rule, found]: readonly [string, string]): Violation {
  return { path: file.path, line, rule, found }
}
