/** Longest pattern, in code points: with it the worst case stays proportional to the text. */
export const MAX_GLOB_LENGTH = 256

/**
 * Matches the whole text against a pattern of `*` (any run, also an empty one), `?` (exactly one character) and literal
 * characters, case-sensitive. Greedy with one resume point: only the last `*` is ever retried, so the cost is bounded
 * by text × pattern and never exponential, which no backtracking regular expression can promise.
 */
export function globMatches(text: string, pattern: string): boolean {
  const characters = Array.from(text)
  const wanted = Array.from(pattern)
  let at = 0
  let next = 0
  let star = -1
  let resume = 0
  while (at < characters.length) {
    // A `*` in the pattern is a wildcard even where the text holds the character itself.
    if (wanted[next] === '*') {
      star = next
      next += 1
      resume = at
    } else if (next < wanted.length && (wanted[next] === '?' || wanted[next] === characters[at])) {
      at += 1
      next += 1
    } else if (star >= 0) {
      resume += 1
      at = resume
      next = star + 1
    } else {
      return false
    }
  }
  while (wanted[next] === '*') next += 1
  return next === wanted.length
}
