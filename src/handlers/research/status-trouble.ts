import type { VendorTrouble } from '../vendor/vendor-error.ts'

/**
 * What a status means where a vendor documents nothing else about it. Unknown ones of the 400s are our mistake and the
 * remaining ones cannot be read: both end the segment, so that an operator looks.
 */
export function troubleOfStatus(status: number): VendorTrouble {
  if (status === 401 || status === 403) return 'authentication'
  if (status === 402) return 'payment'
  if (status === 408) return 'timeout'
  if (status === 429) return 'rate_limited'
  if (status === 451) return 'refused'
  if (status === 503) return 'overloaded'
  if (status >= 500) return 'server'
  return status >= 400 ? 'request' : 'decode'
}
