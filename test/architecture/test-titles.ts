import type { Token } from './tokens.ts'

export interface TestTitle {
  readonly title: string
  readonly line: number
}

const DECLARES: ReadonlySet<string> = new Set(['describe', 'it', 'test'])
/** A test that does not run proves nothing, and one that runs alone hides the others. */
const NOT_RUN: ReadonlySet<string> = new Set(['fails', 'only', 'skip', 'todo'])
/** Called with cases first and with the title after. */
const WITH_CASES: ReadonlySet<string> = new Set(['each', 'for', 'prop', 'runIf', 'skipIf'])

/** The titles of the tests and suites a file declares, as written in its source. */
export function titlesOf(tokens: readonly Token[]): TestTitle[] {
  return tokens.flatMap((token, index): TestTitle[] => {
    if (token.kind !== 'word' || !DECLARES.has(token.text) || tokens[index - 1]?.text === '.') return []
    const called = afterModifiers(tokens, index + 1)
    if (called === null) return []
    const title = tokens[called + 1]
    const written = title?.kind === 'string' || title?.kind === 'template'
    return tokens[called]?.text === '(' && written ? [{ title: title.text, line: title.line }] : []
  })
}

/** Lines of tests and suites that are skipped, planned, expected to fail or run alone. */
export function unrunOf(tokens: readonly Token[]): number[] {
  return tokens.flatMap((token, index) => {
    const declares = token.kind === 'word' && DECLARES.has(token.text) && tokens[index - 1]?.text !== '.'
    const calls = tokens[index + 1]?.kind === 'mark'
    return declares && calls && afterModifiers(tokens, index + 1) === null ? [token.line] : []
  })
}

/** Index of the bracket that opens the call with the title; null for a test that does not run. */
function afterModifiers(tokens: readonly Token[], start: number): number | null {
  let index = start
  let cases = false
  while (tokens[index]?.text === '.' && tokens[index]?.kind === 'mark') {
    const modifier = tokens[index + 1]?.text ?? ''
    if (NOT_RUN.has(modifier)) return null
    cases ||= WITH_CASES.has(modifier)
    index += 2
  }
  return cases ? afterBrackets(tokens, index) : index
}

function afterBrackets(tokens: readonly Token[], start: number): number {
  let depth = 0
  for (let index = start; index < tokens.length; index += 1) {
    const { kind, text } = tokens[index] ?? { kind: 'mark', text: '' }
    if (kind !== 'mark') continue
    if (text === '(') depth += 1
    if (text === ')') depth -= 1
    if (depth === 0) return index + 1
  }
  return start
}

const IDS = /^(?:[TR]\d{2}\s+)+/

/** The ids a title starts with: `T29 R22 a live claim …` carries two. */
export function idsOf({ title }: TestTitle): string[] {
  return IDS.exec(title)?.[0].trim().split(/\s+/) ?? []
}
