/** How a deployment reaches a vendor: its own account, or a stand-in on loopback. */
export interface VendorAccess {
  readonly apiKey: string
  /** Without a trailing slash. */
  readonly baseUrl: string
}

/**
 * Refuses what an SDK would let through: without a key some ask on somebody else's account or send `undefined` as one.
 *
 * @throws Error naming the vendor, and never the key
 */
export function checkedAccess(vendor: string, { apiKey, baseUrl }: VendorAccess): VendorAccess {
  if (!/^[\x21-\x7e]{1,512}$/.test(apiKey))
    throw new Error(`${vendor}: the key is empty or holds something that no key holds`)
  const url = URL.parse(baseUrl)
  if (url === null || (url.protocol !== 'https:' && url.protocol !== 'http:')) {
    throw new Error(`${vendor}: the base URL is no http(s) address`)
  }
  return { apiKey, baseUrl: baseUrl.replace(/\/+$/, '') }
}
