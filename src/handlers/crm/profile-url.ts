const HOST = /^([a-z]{1,3}\.)?linkedin\.com\.?$/
/** A member's name in the address, as it reads: no separators, spaces, controls, or characters of a URL. */
const NAME = /^[^\p{C}\p{Z}/\\%?#]{1,100}$/u
/** An internal id in place of a name; it is case-sensitive, where names are not. */
const INTERNAL_ID = /^AC[A-Za-z]AA[A-Za-z0-9_-]{10,}$/

/**
 * The one spelling of the address of a LinkedIn profile, which identifies a person without a mail address: https, the
 * host without a country, the name in lower case, nothing after it. Null for any other address.
 */
export function profileUrl(text: string): string | null {
  const trimmed = text.trim()
  const parsed = URL.parse(/^https?:\/\//i.test(trimmed) ? trimmed : `https://${trimmed.replace(/^\/\//, '')}`)
  if (parsed === null || !HOST.test(parsed.hostname)) return null
  if (parsed.username !== '' || parsed.password !== '' || parsed.port !== '') return null
  const [kind, segment] = parsed.pathname.split('/').filter((part) => part !== '')
  if (kind?.toLowerCase() !== 'in' || segment === undefined) return null
  const name = nameOf(segment)
  return name === null ? null : `https://www.linkedin.com/in/${encodeURIComponent(name)}`
}

function nameOf(segment: string): string | null {
  let name: string
  try {
    name = decodeURIComponent(segment).normalize('NFC')
  } catch {
    return null
  }
  if (!NAME.test(name)) return null
  return INTERNAL_ID.test(name) ? name : name.toLowerCase().normalize('NFC')
}
