/** Run trees and sources kept; the oldest are forgotten first, which costs one write that changes nothing. */
const KEPT = 10_000

/** Taints that this process knows to be recorded, so that only the first untrusted result of a source pays for a write. */
export class KnownTaints {
  readonly #kept: number
  readonly #known = new Set<string>()

  constructor(kept = KEPT) {
    this.#kept = kept
  }

  has(rootRunId: string, source: string): boolean {
    return this.#known.has(`${rootRunId} ${source}`)
  }

  /** Only after it was written: somebody who asks meanwhile must write it too, and not answer before it is there. */
  add(rootRunId: string, source: string): void {
    this.#known.add(`${rootRunId} ${source}`)
    for (const oldest of this.#known) {
      if (this.#known.size <= this.#kept) break
      this.#known.delete(oldest)
    }
  }
}
