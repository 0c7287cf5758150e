/** Patterns for `ilike` of the words of a search: what matches all of them has every word somewhere, in any case. */
export function searchPatterns(text: string): string[] {
  return text
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => `%${literally(word)}%`)
}

/** The text itself: `%`, `_` and the escape character mean nothing in a search for them. */
function literally(word: string): string {
  return word.replace(/[\\%_]/g, String.raw`\$&`)
}
