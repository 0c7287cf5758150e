import type { JsonValue } from './json.ts'

/** Limits of the arguments of one call, checked before anything else looks at them. */
export const ARGUMENT_LIMITS = { bytes: 256 * 1024, depth: 64 } as const

/** Characters of a text whose value may still be within the limit: `\u0061` is one byte in six characters. */
const MAX_TEXT = 6 * ARGUMENT_LIMITS.bytes

export type ParsedText =
  | { readonly kind: 'parsed'; readonly value: JsonValue }
  | { readonly kind: 'invalid'; readonly message: string }

/**
 * Parses arguments where they arrive as text: from a model, or in a request. Stricter than `JSON.parse` where that picks
 * a value on its own: of two equal keys it keeps the last, which need not be the one that a person or another parser
 * reads, and a number it cannot hold becomes another one. What is parsed here says the same to every reader.
 *
 * Takes time in proportion to the text, whatever it holds. The message names a key at most, never a value.
 */
export function parseArgumentsText(text: string): ParsedText {
  if (text.length > MAX_TEXT) return invalid(`is longer than ${MAX_TEXT / 1024} kB`)
  if (!text.isWellFormed()) return invalid('holds a broken character (a lone surrogate)')
  let value: JsonValue
  try {
    value = JSON.parse(text) as JsonValue
  } catch (error) {
    return invalid(`is not JSON${placeOf(error)}`)
  }
  const problem = ambiguityIn(text)
  return problem === null ? { kind: 'parsed', value } : invalid(problem)
}

function invalid(problem: string): ParsedText {
  return { kind: 'invalid', message: `the text of the arguments ${problem}` }
}

/** Only the place: the engine's own words quote the text. */
function placeOf(error: unknown): string {
  const position = error instanceof Error ? /at position (\d+)/.exec(error.message)?.[1] : undefined
  return position === undefined ? '' : `, from character ${Number(position) + 1}`
}

/** An object or a list around the place that is read; the keys of an object so far, null for a list. */
interface Frame {
  readonly keys: Set<string> | null
}

/** What keeps a text from saying the same to every reader, or null. Relies on the text being JSON. */
function ambiguityIn(text: string): string | null {
  const open: Frame[] = []
  let keyNext = false
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '{' || character === '[') {
      open.push({ keys: character === '{' ? new Set() : null })
      if (open.length > ARGUMENT_LIMITS.depth) return `nests deeper than ${ARGUMENT_LIMITS.depth} levels`
      keyNext = character === '{'
    } else if (character === '}' || character === ']') {
      open.pop()
    } else if (character === ',') {
      keyNext = open.at(-1)?.keys !== null
    } else if (character === '"') {
      const end = endOfString(text, at)
      const problem = stringProblem(text.slice(at, end), keyNext ? (open.at(-1)?.keys ?? null) : null)
      if (problem !== null) return problem
      keyNext = false
      at = end - 1
    } else if (character === '-' || isDigit(character)) {
      const end = endOfNumber(text, at)
      const problem = numberProblem(text.slice(at, end))
      if (problem !== null) return problem
      at = end - 1
    }
  }
  return null
}

function endOfString(text: string, start: number): number {
  let end = start + 1
  while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1
  return end + 1
}

function endOfNumber(text: string, start: number): number {
  let end = start + 1
  while (isDigit(text[end]) || ['.', 'e', 'E', '+', '-'].includes(text[end] ?? '')) end += 1
  return end
}

function isDigit(character: string | undefined): boolean {
  return character !== undefined && character >= '0' && character <= '9'
}

/** @param keys those of the object around it when the string is a key */
function stringProblem(token: string, keys: Set<string> | null): string | null {
  const written = token.includes('\\') ? (JSON.parse(token) as string) : token.slice(1, -1)
  if (!written.isWellFormed()) return 'holds a broken character (a lone surrogate)'
  if (keys === null) return null
  if (keys.has(written)) return `gives the key ${JSON.stringify(clipped(written))} twice`
  keys.add(written)
  return null
}

function clipped(key: string): string {
  return key.length > 80 ? `${key.slice(0, 77).toWellFormed()}...` : key
}

/** A fraction may be rounded, as everywhere; a whole number, a sign or a magnitude may not get lost. */
function numberProblem(token: string): string | null {
  const value = Number(token)
  if (!Number.isFinite(value)) return 'holds a number too large to be read'
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return 'holds an integer too large to be exact; send it as text'
  if (value !== 0) return null
  if (/^-?[0.]*[1-9]/.test(token)) return 'holds a number too small to be read'
  return token.startsWith('-') ? 'holds a minus zero; send 0' : null
}
