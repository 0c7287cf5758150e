/** An address as it is looked for: lower case, without blanks around it. */
export interface Mention {
  readonly address: string
  /** Every text with the address in it has this in it; cheap to look for. */
  readonly hint: string
  /** A POSIX regular expression for {@link mentions}. */
  readonly pattern: string
}

const ADDRESS = /^[^\s@"\\]{1,255}@[^\s@"\\]{1,255}$/

/** Null for what is no address. */
export function mentionOf(text: string): Mention | null {
  const address = text.trim().toLowerCase()
  if (!ADDRESS.test(address)) return null
  const [local = '', domain = ''] = address.split('@')
  // ann@acme.test is no part of joann@acme.test, of ann@acme.test.example or of ann@acme.testing.
  const pattern = `(?<![a-z0-9._+'-])${literal(local)}(@|%40)${literal(domain)}(?![a-z0-9-])(?!\\.[a-z0-9])`
  return { address, hint: local, pattern }
}

function literal(text: string): string {
  return text.replaceAll(/[!-/:-@[-`{-~]/g, '\\$&')
}

/** Escapes of JSON and of addresses stand for one character each; left as they are, their letters would touch the address. */
const ESCAPES = String.raw`\\(u[0-9a-f]{4}|[nrtbf])|%(?!40)[0-9a-f]{2}`

/** SQL: whether a column holds the address. `hint` and `pattern` name the parameters with those. */
export function mentions(column: string, hint: string, pattern: string): string {
  const text = `lower(${column}::text)`
  return `coalesce(strpos(${text}, ${hint}::text) > 0 AND regexp_replace(${text}, '${ESCAPES}', ' ', 'g') ~ ${pattern}::text, false)`
}
