import { companyDomain } from '../crm/company-domain.ts'

/**
 * The address of a page as every organization may read it: no sign-in, query or fragment, which can carry tokens and
 * names. Null for what is no page on the public net.
 */
export function publicSource(text: string): string | null {
  const parsed = URL.parse(text.trim())
  if (parsed === null || (parsed.protocol !== 'https:' && parsed.protocol !== 'http:')) return null
  if (parsed.username !== '' || parsed.password !== '' || companyDomain(parsed.hostname) === null) return null
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`
}
