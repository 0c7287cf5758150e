import { RE2JS } from 're2js'

/** What Ajv needs of a compiled pattern. */
export interface PatternMatcher {
  test(text: string): boolean
  toString(): string
}

const MAX_PATTERN_LENGTH = 4096

/**
 * Characters × program size of one match; about two seconds at worst (8 ns a step measured). A text beyond it fails its
 * pattern.
 */
const MAX_MATCH_STEPS = 250_000_000

/**
 * Compiles a pattern of a schema with RE2, whose matching time is linear: a published schema can be hostile, and so can
 * the text it is matched against. Null when RE2 cannot express it (look-around, back references, large repetitions).
 */
export function linearPattern(pattern: string): PatternMatcher | null {
  if (pattern.length > MAX_PATTERN_LENGTH) return null
  try {
    const compiled = RE2JS.compile(RE2JS.translateRegExp(pattern))
    const longest = Math.floor(MAX_MATCH_STEPS / Math.max(1, compiled.programSize()))
    return {
      test: (text) => text.length <= longest && compiled.test(text),
      // Ajv keys compiled patterns by their text: without this, every pattern of a schema would share the first one.
      toString: () => `/${pattern}/u`,
    }
  } catch {
    return null
  }
}

/** Whether ECMAScript itself accepts the pattern: tells one that cannot be enforced from one that is broken. */
export function isEcmaPattern(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}
