import type { Token } from './tokens.ts'

export interface Import {
  readonly specifier: string
  /** `type` is gone at run time; `dynamic` loads only when it is reached; `value` loads with its file. */
  readonly kind: 'value' | 'type' | 'dynamic'
  readonly line: number
}

/** A dynamic import whose target is not written out: nothing can say what it loads. */
export const COMPUTED = '<computed>'

/**
 * Every import of a file: static, re-exporting, dynamic, and `require`. `import { type A }` counts as a value, because
 * the compiler keeps the import and drops the name alone.
 */
export function importsOf(tokens: readonly Token[]): Import[] {
  return tokens.flatMap((token, index): Import[] => {
    if (token.kind !== 'word' || isMember(tokens, index)) return []
    if (token.text === 'import') return importAt(tokens, index)
    if (token.text === 'export') return reExportAt(tokens, index)
    const called = token.text === 'require' && isMark(tokens[index + 1], '(')
    return called ? [{ specifier: literal(tokens, index + 2), kind: 'value', line: token.line }] : []
  })
}

function importAt(tokens: readonly Token[], index: number): Import[] {
  const { line = 0 } = tokens[index] ?? {}
  const next = tokens[index + 1]
  if (isMark(next, '.') || isMark(next, ':')) return []
  if (isMark(next, '(')) return [{ specifier: literal(tokens, index + 2), kind: 'dynamic', line }]
  if (next?.kind === 'string') return [{ specifier: next.text, kind: 'value', line }]
  // `import type from 'x'` brings in a value that happens to be named so.
  const typeOnly = isWord(next, 'type') && !isWord(tokens[index + 2], 'from') && !isMark(tokens[index + 2], ',')
  return fromClause(tokens, index + 1, { kind: typeOnly ? 'type' : 'value', line })
}

function reExportAt(tokens: readonly Token[], index: number): Import[] {
  const typeOnly = isWord(tokens[index + 1], 'type')
  const start = index + (typeOnly ? 2 : 1)
  if (!isMark(tokens[start], '{') && !isMark(tokens[start], '*')) return []
  const end = isMark(tokens[start], '{') ? tokens.findIndex((token, at) => at > start && isMark(token, '}')) + 1 : start
  const clause = isMark(tokens[start], '{') ? tokens.slice(end, end + 2) : tokens.slice(start + 1, start + 5)
  const from = clause.findIndex((token) => isWord(token, 'from'))
  if (from < 0 || (isMark(tokens[start], '{') && from > 0)) return []
  const target = clause[from + 1]
  if (target?.kind !== 'string') return []
  return [{ specifier: target.text, kind: typeOnly ? 'type' : 'value', line: tokens[index]?.line ?? 0 }]
}

function fromClause(tokens: readonly Token[], start: number, found: Omit<Import, 'specifier'>): Import[] {
  for (let index = start; index < tokens.length; index += 1) {
    const target = tokens[index + 1]
    if (isWord(tokens[index], 'from') && target?.kind === 'string') return [{ specifier: target.text, ...found }]
  }
  throw new Error(`line ${found.line}: an import names no module`)
}

function literal(tokens: readonly Token[], index: number): string {
  const token = tokens[index]
  const closed = isMark(tokens[index + 1], ')') || isMark(tokens[index + 1], ',')
  return (token?.kind === 'string' || token?.kind === 'template') && closed ? token.text : COMPUTED
}

/** `foo.import`, `'import'` and a key named so are no imports. */
function isMember(tokens: readonly Token[], index: number): boolean {
  return isMark(tokens[index - 1], '.') && !isMark(tokens[index - 2], '.')
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.kind === 'mark' && token.text === text
}

function isWord(token: Token | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text
}

/** The package a bare specifier belongs to; null for a relative one. `node:fs/promises` belongs to `node:fs`. */
export function packageOf(specifier: string): string | null {
  if (specifier.startsWith('.') || specifier.startsWith('/') || specifier === COMPUTED) return null
  const [first = '', second = ''] = specifier.split('/')
  return first.startsWith('@') ? `${first}/${second}` : first
}
