/** Names longer than this are not compared: a suggestion for them would help nobody, and comparing costs their square. */
const COMPARED_LENGTH = 80

/** The known name that a person most likely meant, or null when none is close. */
function closest(name: string, known: Iterable<string>): string | null {
  if (name.length > COMPARED_LENGTH) return null
  let best: string | null = null
  let distance = Math.min(3, Math.floor(name.length / 3)) + 1
  for (const candidate of known) {
    if (candidate.length > COMPARED_LENGTH) continue
    const edits = editDistance(name.toLowerCase(), candidate.toLowerCase())
    if (edits < distance) {
      distance = edits
      best = candidate
    }
  }
  return best
}

/** `; did you mean x?`, or nothing. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const suggestion = closest(name, known)
  return suggestion === null ? '' : `; did you mean ${suggestion}?`
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const replaced = (previous[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, (previous[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    previous = current
  }
  return previous[b.length] ?? 0
}
