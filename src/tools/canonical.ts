import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import type { JsonObject, JsonValue } from './json.ts'

/**
 * RFC 8785 text of a plain JSON value: keys by UTF-16 code unit, shortest numbers, no white space. Unicode is not
 * normalised, so two spellings of one accented letter stay two values.
 *
 * @throws Error on a lone surrogate, a number JSON cannot carry, or a value that is not JSON
 */
export function canonicalJson(value: JsonValue): string {
  const text = canonicalize(value)
  if (text === undefined) throw new TypeError('only a JSON value has a canonical form')
  return text
}

export function sha256Hex(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('hex')
}

/** What an approval and a claim are bound to: hex sha-256 of the parsed arguments, defaults applied. */
export function argumentsHash(args: JsonObject): string {
  return sha256Hex(canonicalJson(args))
}

/** Identity of a contract: hex sha-256 over both schemas. The version of a tool is a stored function of this. */
export function schemaHash(input: JsonObject, output: JsonObject): string {
  return sha256Hex(canonicalJson({ input, output }))
}
