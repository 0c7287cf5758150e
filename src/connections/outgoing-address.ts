import ipaddr from 'ipaddr.js'

/** What a deployment lets out besides public addresses: `host`, `host:port`, an address, or a range such as `10.1.0.0/16`. */
export type Allowance = string

export interface Destination {
  /** Name or literal address, in lower case, without brackets or a trailing dot. */
  readonly host: string
  readonly port: number
}

/** Ends of names that never lead to a public host, whatever a resolver says. */
const PRIVATE_NAMES = ['localhost', 'local', 'internal', 'intranet', 'lan', 'home.arpa', 'onion']

/** Whether an address is one that anybody on the internet can be reached at. */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  // `process` reads an IPv4 address inside an IPv6 one as what it is. Everything with a special meaning has a range of
  // its own; the ways to write IPv4 in IPv6 (6to4, Teredo, NAT64) are among them and lead wherever they like.
  return ipaddr.process(address).range() === 'unicast'
}

/** The literal address a host is, or null for a name. */
export function literalOf(host: string): string | null {
  return ipaddr.isValid(host) ? host : null
}

/** Whether a name can only mean something inside a network: no dot, or an ending that is kept for that. */
export function isPrivateName(host: string): boolean {
  return !host.includes('.') || PRIVATE_NAMES.some((end) => host === end || host.endsWith(`.${end}`))
}

export function hostOf(url: URL): string {
  return url.hostname
    .toLowerCase()
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
}

/** A deployment's list, read once. */
export interface Allowances {
  /** The deployment named this destination by its host: what it resolves to is the deployment's own business. */
  names(destination: Destination): boolean
  /** The deployment named a range that holds this address. */
  holds(address: string): boolean
}

/** @throws Error naming the entry that cannot be read */
export function allowancesOf(entries: readonly Allowance[]): Allowances {
  const hosts = new Set<string>()
  const ranges: ReturnType<typeof ipaddr.parseCIDR>[] = []
  for (const entry of entries) {
    const text = entry.trim().toLowerCase()
    if (text.includes('/')) {
      if (!ipaddr.isValidCIDR(text)) throw new Error(`${JSON.stringify(entry)} is no range of addresses`)
      ranges.push(ipaddr.parseCIDR(text))
      continue
    }
    const url = URL.parse(`http://${ipaddr.IPv6.isValid(text) ? `[${text}]` : text}`)
    if (url === null || url.pathname !== '/' || url.username !== '' || url.search !== '' || url.hash !== '')
      throw new Error(`${JSON.stringify(entry)} is no host, host:port or range of addresses`)
    const port = /:(\d+)$/.exec(text.replace(/^\[.*\]/, ''))?.[1]
    hosts.add(port === undefined || ipaddr.IPv6.isValid(text) ? hostOf(url) : `${hostOf(url)}:${port}`)
  }
  return {
    names: ({ host, port }) => hosts.has(host) || hosts.has(`${host}:${port}`),
    holds(address) {
      if (!ipaddr.isValid(address)) return false
      const parsed = ipaddr.process(address)
      return ranges.some((range) => range[0].kind() === parsed.kind() && parsed.match(range))
    },
  }
}
