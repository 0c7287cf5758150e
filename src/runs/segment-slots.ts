/** Bounds how many segments one process runs at the same time. */
export interface SegmentSlots {
  /** Waits for a slot; false once closed. */
  enter(): Promise<boolean>
  leave(): void
  close(): void
  /** Resolves when every slot is free, or after `graceMs`. */
  drained(graceMs: number): Promise<void>
}

export function segmentSlots(limit: number): SegmentSlots {
  let taken = 0
  let closed = false
  const waiting: ((entered: boolean) => void)[] = []
  const { promise: empty, resolve: emptied } = Promise.withResolvers<void>()
  return {
    async enter() {
      if (closed) return false
      if (taken < limit) {
        taken += 1
        return true
      }
      return new Promise<boolean>((resolve) => waiting.push(resolve))
    },
    leave() {
      const next = waiting.shift()
      if (next !== undefined) next(true)
      else taken -= 1
      if (closed && taken === 0) emptied()
    },
    close() {
      closed = true
      for (const refuse of waiting.splice(0)) refuse(false)
      if (taken === 0) emptied()
    },
    async drained(graceMs) {
      const { promise: late, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, graceMs)
      await Promise.race([empty, late])
      clearTimeout(timer)
    },
  }
}
