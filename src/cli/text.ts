/**
 * Characters that are not seen, or that change what is seen: controls (a terminal obeys them), direction overrides,
 * zero-width characters and tags, but for the one that only makes an emoji of a sign. Everything that came from a model or a server is printed with them spelled out.
 */
const UNSEEN = /(?!\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** One line: line breaks are spelled out too. */
export function oneLine(text: string): string {
  return text.replace(UNSEEN, spelled)
}

/** Keeps line breaks and tabs, for text that is printed as a block. */
export function block(text: string): string {
  return text.replace(UNSEEN, (character) =>
    character === '\n' || character === '\t' ? character : spelled(character),
  )
}

function spelled(character: string): string {
  if (character === '\n') return '\\n'
  if (character === '\t') return '\\t'
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}

export function cut(text: string, length: number): string {
  const points = Array.from(text)
  return points.length <= length ? text : `${points.slice(0, length - 1).join('')}…`
}

export function prettyJson(value: unknown): string {
  return block(JSON.stringify(value, null, 2) ?? 'null')
}

export function indented(text: string, by: string): string {
  return text
    .split('\n')
    .map((line) => `${by}${line}`)
    .join('\n')
}

/** Columns as wide as their widest cell. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<number[]>(
    (widest, row) => row.map((cell, column) => Math.max(widest[column] ?? 0, cell.length)),
    [],
  )
  return rows
    .map((row) =>
      row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column] ?? 0))).join('  '),
    )
    .join('\n')
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 3_600_000) return `${Math.round(ms / 60_000)} min`
  if (ms < 86_400_000) return `${Math.round(ms / 3_600_000)} h`
  return `${Math.round(ms / 86_400_000)} d`
}

export function fromNow(iso: string, now: number): string {
  const ms = Date.parse(iso) - now
  return ms >= 0 ? `in ${duration(ms)}` : `${duration(-ms)} ago`
}

export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
