/** Shorter values are words and numbers that occur by chance; taking them out would tear holes into every answer. */
export const MIN_SECRET_LENGTH = 6

/** Shortest piece of an encoded secret that is looked for. */
const MIN_FORM_LENGTH = 6

/**
 * Finds the credential values of one call in text, in any encoding a service may echo them in: as they are, URL and
 * form encoded, JSON escaped (also with `\/` and in ASCII alone), written as HTML, hexadecimal, and base64, also where
 * the secret stands inside a longer encoded text (`user:secret`) or in an address. Null when there is nothing to look
 * for.
 */
export function secretPattern(secrets: readonly string[]): RegExp | null {
  const forms = new Set(secrets.filter((secret) => secret.length >= MIN_SECRET_LENGTH).flatMap(formsOf))
  const wanted = [...forms].filter((form) => form.length >= MIN_FORM_LENGTH).toSorted((a, b) => b.length - a.length)
  if (wanted.length === 0) return null
  // Literals only, longest first: the alternation cannot backtrack, and a secret that contains another wins.
  return new RegExp(wanted.map(escapeLiteral).join('|'), 'g')
}

function escapeLiteral(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const escaped = jsonEscaped(secret)
  const hex = bytes.toString('hex')
  const url = encodeURIComponent(secret.toWellFormed())
  const percent = [url, url.replaceAll('%20', '+'), percentEncoded(bytes), encodeURI(secret.toWellFormed())]
  const json = [escaped, escaped.replaceAll('/', '\\/'), asciiOnly(escaped), asciiOnly(escaped.replaceAll('/', '\\/'))]
  return [
    secret,
    secret.trim(),
    ...json,
    ...json.map(jsonEscaped),
    ...htmlForms(secret),
    hex,
    hex.toUpperCase(),
    ...percent,
    ...percent.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())),
    ...base64Forms(bytes),
  ]
}

function jsonEscaped(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function asciiOnly(text: string): string {
  return text.replace(/[^\0-\u007f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** With and without escaped quotes; an apostrophe has three spellings. */
function htmlForms(text: string): string[] {
  const inText = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const quoted = inText.replaceAll('"', '&quot;')
  return [inText, quoted, ...['&#39;', '&#x27;', '&apos;'].map((form) => quoted.replaceAll("'", form))]
}

/** Encodes everything but letters and digits, as stricter encoders do. */
function percentEncoded(bytes: Buffer): string {
  return Array.from(bytes, (byte) => {
    const character = String.fromCharCode(byte)
    return /[A-Za-z0-9]/.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }).join('')
}

/**
 * Base64 groups three bytes, so a secret inside a longer text is spelled one of three ways, by where it starts. Of each
 * the characters are kept that depend on the secret alone.
 */
function base64Forms(bytes: Buffer): string[] {
  const whole = bytes.toString('base64')
  const forms = [whole, whole.replace(/=+$/, '')]
  for (const lead of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(lead), bytes])
      .toString('base64')
      .replace(/=+$/, '')
    const sure = Math.floor(((lead + bytes.length) * 8) / 6)
    forms.push(text.slice(lead === 0 ? 0 : lead + 1, sure))
  }
  return forms.flatMap((form) => [form, form.replaceAll('+', '-').replaceAll('/', '_'), encodeURIComponent(form)])
}
