import type { Posted } from '../../provider-jobs/submit.ts'
import { VendorError, type VendorTrouble } from './vendor-error.ts'

/** Troubles after which nobody knows whether the vendor took the job. */
const UNKNOWN: ReadonlySet<VendorTrouble> = new Set(['transport', 'timeout', 'server', 'overloaded', 'decode'])

/**
 * Tells a request to start work that was refused from one whose answer was lost.
 * @throws VendorError what was definitely refused
 */
export async function unlessUnknown(post: () => Promise<Posted>): Promise<Posted> {
  try {
    return await post()
  } catch (error) {
    if (error instanceof VendorError && UNKNOWN.has(error.trouble)) return { kind: 'unknown' }
    throw error
  }
}
