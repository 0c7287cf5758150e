import { isCredentialName } from './credential-names.ts'
import { mapJson } from './json-map.ts'
import type { JsonValue } from './json.ts'
import { MIN_SECRET_LENGTH, secretPattern } from './secret-forms.ts'

/** What stands where a credential stood. */
export const REDACTED = '[redacted]'

/**
 * Takes credentials out of plain JSON: every field whose name is a credential's, wherever it sits, and the exact
 * values in use for the call, in any encoding, in text and in names. Parts without either are returned as they are.
 *
 * @param secrets credential values of this very call; values under six characters are left to the name rule
 */
export function redact(value: JsonValue, secrets: readonly string[]): JsonValue {
  const pattern = secretPattern(secrets)
  const named = (name: string): JsonValue | undefined => (isCredentialName(name) ? REDACTED : undefined)
  if (pattern === null) return mapJson(value, { text: (text) => text, field: named })
  const written = new Set(secrets.filter((secret) => secret.length >= MIN_SECRET_LENGTH))
  return mapJson(value, {
    text: (text) => text.replace(pattern, REDACTED),
    number: (number) => (written.has(String(number)) ? REDACTED : number),
    field: named,
  })
}

/** The same for a single text: messages and reasons. */
export function redactText(text: string, secrets: readonly string[]): string {
  const pattern = secretPattern(secrets)
  return pattern === null ? text : text.replace(pattern, REDACTED)
}
