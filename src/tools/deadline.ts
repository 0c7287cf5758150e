/** Raised by {@link withDeadline} when the work did not end in time. */
export class DeadlineExceeded extends Error {
  override readonly name = 'DeadlineExceeded'
}

/**
 * Runs `work` under a signal that aborts after `ms`. Work that ignores its signal is left behind: its answer, and
 * whatever it raises later, reach nobody.
 * @throws DeadlineExceeded after `ms` milliseconds
 */
export async function withDeadline<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const { promise: expired, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    const error = new DeadlineExceeded('the deadline passed')
    controller.abort(error)
    reject(error)
  }, ms)
  try {
    return await Promise.race([work(controller.signal), expired])
  } finally {
    clearTimeout(timer)
  }
}

/** Milliseconds a call may take: the tool's own timeout, or what is left of the run, whichever is shorter. Never below zero. */
export function callBudgetMs(timeoutS: number, deadline: Date, now: Date): number {
  return Math.max(0, Math.min(timeoutS * 1000, deadline.getTime() - now.getTime()))
}
