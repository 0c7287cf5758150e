/** Counts failed sign-ins of an address. In memory: each process has its own count, which bounds guessing all the same. */
export interface AttemptLimiter {
  /** Seconds until the address may try again; null when it may try now. */
  blockedFor(address: string): number | null
  failed(address: string): void
}

const LIMIT = 10
const WINDOW_MS = 60_000
/** Addresses remembered; the oldest are forgotten first, so that a flood of addresses costs no memory. */
const REMEMBERED = 10_000

export function attemptLimiter(now: () => number, limit = LIMIT): AttemptLimiter {
  const windows = new Map<string, { count: number; readonly endsAt: number }>()
  const current = (address: string) => {
    const window = windows.get(address)
    return window === undefined || window.endsAt <= now() ? null : window
  }
  return {
    blockedFor(address) {
      const window = current(address)
      return window === null || window.count < limit ? null : Math.ceil((window.endsAt - now()) / 1000)
    },
    failed(address) {
      const window = current(address) ?? { count: 0, endsAt: now() + WINDOW_MS }
      window.count += 1
      windows.delete(address)
      windows.set(address, window)
      for (const oldest of windows.keys()) {
        if (windows.size <= REMEMBERED) break
        windows.delete(oldest)
      }
    },
  }
}
