/** How much of a flood of callbacks one address may cause. In memory: each process counts what reaches it. */
export interface DeliveryLimiter {
  /** Seconds until the address may send again; null when it may now, and has. */
  take(address: string): number | null
  /** Its signature was wrong: checking the next ones costs it more. */
  failed(address: string): void
}

export interface DeliveryLimits {
  /** Deliveries a second that an address may go on sending. A vendor sends everybody's from a few addresses. */
  readonly perSecond: number
  /** Deliveries at once after a pause. */
  readonly burst: number
  /** What a wrong signature costs, in deliveries. */
  readonly failureCost: number
}

export const DELIVERY_LIMITS: DeliveryLimits = { perSecond: 600, burst: 1_200, failureCost: 40 }

/** Addresses remembered; the ones that were quiet longest are forgotten first. */
const REMEMBERED = 10_000

/** A bucket for each address, filled at a steady rate. */
export function deliveryLimiter(now: () => number, limits: DeliveryLimits = DELIVERY_LIMITS): DeliveryLimiter {
  const { perSecond, burst, failureCost } = limits
  const buckets = new Map<string, { left: number; readonly at: number }>()
  const leftOf = (address: string): number => {
    const bucket = buckets.get(address)
    if (bucket === undefined) return burst
    return Math.min(burst, bucket.left + (Math.max(0, now() - bucket.at) * perSecond) / 1000)
  }
  const put = (address: string, left: number): void => {
    buckets.delete(address)
    buckets.set(address, { left, at: now() })
    for (const oldest of buckets.keys()) {
      if (buckets.size <= REMEMBERED) break
      buckets.delete(oldest)
    }
  }
  return {
    take(address) {
      const left = leftOf(address)
      if (left < 1) return Math.max(1, Math.ceil((1 - left) / perSecond))
      put(address, left - 1)
      return null
    },
    failed: (address) => put(address, Math.max(-burst, leftOf(address) - failureCost)),
  }
}
