const HOST = /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])$/

/** Characters of a whole host name. */
const MAX_HOST_LENGTH = 253

/**
 * The domain that a web address or a host name stands for, in the one spelling that identifies a company: lower case,
 * letters beyond ASCII in their `xn--` form, without scheme, `www.`, port and path. Other subdomains stay: which part of
 * a name can be registered is a list that changes, and `careers.acme.test` may be somebody else. Null for what names no
 * host on the public net: an IP address, a name without a dot, a mail address.
 */
export function companyDomain(text: string): string | null {
  const host = hostOf(text.trim())
  if (host === null) return null
  const bare = host.replace(/\.$/, '').replace(/^(www\.)+(?=[^.]+\.)/, '')
  return bare.length <= MAX_HOST_LENGTH && HOST.test(bare) ? bare : null
}

function hostOf(text: string): string | null {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase()
  if (scheme !== undefined && scheme !== 'http' && scheme !== 'https') return null
  const parsed = URL.parse(scheme === undefined ? `https://${text.replace(/^\/\//, '')}` : text)
  return parsed === null || parsed.username !== '' || parsed.password !== '' ? null : parsed.hostname
}
