/** What a tool keeps of a vendor's text: at most `max` characters, and null when nothing readable is left. */
export function clippedText(text: string | null | undefined, max: number): string | null {
  const whole = (text ?? '').toWellFormed().trim()
  if (whole === '') return null
  if (whole.length <= max) return whole
  const cut = whole.slice(0, max - 1)
  // A character outside the basic plane takes two units, and half of one is none.
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`
}

/** The same for what is one line by nature: a name, a title, a place. */
export function clippedLine(text: string | null | undefined, max: number): string | null {
  return clippedText(text?.replaceAll(/\s+/g, ' '), max)
}

/** Characters of an address; browsers and servers refuse longer ones. */
const MAX_ADDRESS = 2_048

/** An http(s) address without user information; null for anything else, such as a script or a file. */
export function webAddress(text: string | null | undefined): string | null {
  const url = text === null || text === undefined || text.length > MAX_ADDRESS ? null : URL.parse(text)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) return null
  const plain = url.username === '' && url.password === '' && url.href.length <= MAX_ADDRESS
  return plain ? url.href : null
}
