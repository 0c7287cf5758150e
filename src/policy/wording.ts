import type { Position } from './condition.ts'
import { didYouMean } from './suggest.ts'

const SHOWN_LENGTH = 60
const SHOWN_NAMES = 12

/** A name as a person wrote it, cut where it stops being one, without characters that disturb a terminal. */
export function shown(name: string, length = SHOWN_LENGTH): string {
  const plain = name.replace(/[\s\p{C}]+/gu, ' ').trim()
  return plain.length > length ? `${plain.slice(0, length)}…` : plain
}

export function listed(names: readonly string[]): string {
  const rest = names.length - SHOWN_NAMES
  return names.slice(0, SHOWN_NAMES).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

/** `there is no x; did you mean y? <what there is>` */
export function notFound(
  problem: string,
  name: string,
  known: { readonly names: readonly string[]; readonly intro: string },
): string {
  const guess = didYouMean(name, known.names)
  return `${problem}${guess === '' ? '.' : guess} ${known.intro} ${listed(known.names)}`
}

/** A piece of the source on one line. */
export function excerpt(source: string, at: Position): string {
  return shown(source.slice(at.start, at.end))
}

/**
 * Widens a range until its parentheses close: the parser leaves those around an operand out, so the range of
 * `(a + b) * c` would start after the first one.
 */
export function balanced(source: string, at: Position): Position {
  let { start, end } = at
  let { missing, open } = parentheses(source.slice(start, end))
  while (missing > 0 && start > 0) {
    start -= 1
    if (source[start] === '(') missing -= 1
  }
  while (open > 0 && end < source.length) {
    if (source[end] === ')') open -= 1
    end += 1
  }
  return { start, end }
}

/** Whether a balanced range stands in parentheses of its own. */
export function parenthesised(source: string, at: Position): boolean {
  return /\(\s*$/.test(source.slice(0, at.start)) && /^\s*\)/.test(source.slice(at.end))
}

/** Parentheses that close without having been opened, and the other way round, outside quoted text. */
function parentheses(text: string): { missing: number; open: number } {
  let missing = 0
  let open = 0
  let quote: string | null = null
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index] ?? ''
    if (quote !== null) {
      if (character === '\\') index += 1
      else if (character === quote) quote = null
    } else if (character === '"' || character === "'") quote = character
    else if (character === '(') open += 1
    else if (character === ')' && open > 0) open -= 1
    else if (character === ')') missing += 1
  }
  return { missing, open }
}

const LIMIT_WORDS: Readonly<Record<string, string>> = {
  maxAstNodes: 'has too many parts; split it into several rules',
  maxDepth: 'is nested too deeply; split it into several rules',
  maxListElements: 'has a list that is too long; read the list from a fact instead',
  maxMapEntries: 'has a map that is too large; a condition cannot build one',
  maxCallArguments: 'calls something with too many arguments',
}

/** What a parser or type error means to a person who does not know the parser. */
export function libraryWording(code: string, summary: string): string {
  switch (code) {
    case 'limit_exceeded': {
      const limit = /^Exceeded (\w+) \((\d+)\)$/.exec(summary)
      const words = LIMIT_WORDS[limit?.[1] ?? '']
      return words === undefined ? 'the condition is too large' : `the condition ${words} (limit ${limit?.[2]})`
    }
    case 'unexpected_token':
      return summary.endsWith('EOF')
        ? 'the condition ends where something is still missing'
        : 'this is not expected here'
    case 'expected_token':
      return summary.endsWith('EOF')
        ? 'the condition ends where something is still missing'
        : 'something is missing or left over here'
    case 'unexpected_character':
      return summary.endsWith('=') || summary.endsWith("'='")
        ? 'one = says nothing here; write == to compare'
        : 'this is not expected here'
    case 'unterminated_string':
    case 'unterminated_triple_quoted_string':
      return 'the text that starts here has no closing quote'
    case 'no_such_overload':
      return overloadWording(summary)
    case 'no_matching_overload':
      return `there is no ${typeWords(/'(.*)'$/.exec(summary)?.[1] ?? 'such function')}`
    case 'reserved_identifier':
      return `${typeWords(/: (.*)$/.exec(summary)?.[1] ?? 'this')} is a word of the rule language; a name cannot be the same`
    case 'cannot_index_type':
      return `a ${typeWords(/'(.*)'$/.exec(summary)?.[1] ?? 'value of this type')} has no fields`
    default:
      return typeWords(summary.charAt(0).toLowerCase() + summary.slice(1))
  }
}

function overloadWording(summary: string): string {
  const binary = /^no such overload: (.+) (==|!=|<=|>=|<|>|in|\+|-|\*|\/|%) (.+)$/.exec(summary)
  if (binary === null) return typeWords(summary)
  const [, left = '', operator = '', right = ''] = binary
  const mixed = (left === 'int' && right === 'double') || (left === 'double' && right === 'int')
  const remedy = mixed ? '; write the whole number with .0' : ''
  return `${operator} is not defined between ${typeWords(left)} and ${typeWords(right)}${remedy}`
}

/** The type checker's names as the documentation of rules has them. */
function typeWords(text: string): string {
  return shown(text.replaceAll('map<dyn, dyn>', 'map').replaceAll('list<dyn>', 'list').replaceAll('$', ''), 200)
}
