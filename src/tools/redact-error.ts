import { inspect } from 'node:util'
import { REDACTED } from './redact.ts'
import { secretPattern } from './secret-forms.ts'

/** Causes of causes that are kept. */
const MAX_CAUSES = 4

/** How deep an error is looked into. Errors of HTTP clients hold the request with its headers three levels down. */
const LOOK_DEPTH = 8

/**
 * What a handler raised, fit for a log and an error report: the error itself, or, where it quotes a credential of this
 * call anywhere in it, a stand-in with the same name, the message and stack without the credential, and nothing else.
 */
export function redactError(error: unknown, secrets: readonly string[]): unknown {
  const pattern = secretPattern(secrets)
  if (pattern === null) return error
  const text = inspect(error, { depth: LOOK_DEPTH, maxArrayLength: null, maxStringLength: null, breakLength: Infinity })
  const said = error instanceof Error ? `${text}\n${error.message}\n${String(error.stack)}` : text
  // Also split over lines or escaped by `inspect`: what it shows of a string is not always the string.
  return said.search(pattern) < 0 ? error : standIn(error, pattern, 0)
}

function standIn(error: unknown, pattern: RegExp, depth: number): Error {
  if (!(error instanceof Error)) return new Error('a handler raised something that quotes a credential of the call')
  const clean = (text: string): string => text.replace(pattern, REDACTED)
  const cause =
    error.cause instanceof Error && depth < MAX_CAUSES ? standIn(error.cause, pattern, depth + 1) : undefined
  const copy = new Error(clean(error.message), cause === undefined ? {} : { cause })
  copy.name = clean(error.name)
  if (error.stack !== undefined) copy.stack = clean(error.stack)
  return copy
}
