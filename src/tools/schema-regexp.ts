import { RE2JS } from 're2js'
import { toRe2 } from './schema-pattern.ts'

/** What Ajv needs of a compiled pattern, and what a match costs. */
export interface PatternMatcher {
  test(text: string): boolean
  toString(): string
  /** Instructions of the compiled program; a match takes at most that many steps a character, at 8 ns each. */
  readonly size: number
}

const MAX_PATTERN_LENGTH = 4096

/** Instructions of one pattern. `[a-z]{1,1000}` has a thousand; a page of them takes seconds to compile. */
const MAX_PATTERN_SIZE = 10_000

/**
 * Characters × instructions of one match; about two seconds at worst. A text beyond it fails its pattern.
 */
const MAX_MATCH_STEPS = 250_000_000

/** Patterns kept compiled: admission, copy and compiler each ask for the same one. The least recently used goes first. */
const MAX_KEPT = 256
const kept = new Map<string, PatternMatcher | null>()

/**
 * Compiles a pattern of a schema with RE2, whose matching time is linear: a published schema can be hostile, and so can
 * the text it is matched against. Null when RE2 cannot express it (look-around, back references, large repetitions).
 */
export function linearPattern(pattern: string): PatternMatcher | null {
  if (pattern.length > MAX_PATTERN_LENGTH) return null
  const known = kept.get(pattern)
  kept.delete(pattern)
  const matcher = known === undefined ? compile(pattern) : known
  kept.set(pattern, matcher)
  const oldest = kept.size > MAX_KEPT ? kept.keys().next().value : undefined
  if (oldest !== undefined) kept.delete(oldest)
  return matcher
}

/** Instructions a pattern will have, known without compiling it; zero for one that will not be compiled at all. */
export function patternSize(pattern: string): number {
  const size = pattern.length > MAX_PATTERN_LENGTH ? 0 : (toRe2(pattern)?.size ?? 0)
  return size > MAX_PATTERN_SIZE ? 0 : size
}

function compile(pattern: string): PatternMatcher | null {
  const translated = toRe2(pattern)
  if (translated === null || translated.size > MAX_PATTERN_SIZE) return null
  try {
    const compiled = RE2JS.compile(translated.text)
    const size = compiled.programSize()
    const longest = Math.floor(MAX_MATCH_STEPS / Math.max(1, size))
    return {
      size,
      test: (text) => text.length <= longest && compiled.test(text),
      // Ajv keys compiled patterns by their text: without this, every pattern of a schema would share the first one.
      toString: () => `/${pattern}/u`,
    }
  } catch {
    return null
  }
}

/**
 * Whether ECMAScript itself accepts the pattern, in its strict or its lenient form: tells one that cannot be enforced
 * from one that is broken.
 */
export function isEcmaPattern(pattern: string): boolean {
  return ['u', ''].some((flags) => {
    try {
      return new RegExp(pattern, flags) instanceof RegExp
    } catch {
      return false
    }
  })
}
