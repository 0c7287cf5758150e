import { createHash } from 'node:crypto'

/** Somebody who told a vendor not to process what it knows about them. */
export interface Suppression {
  readonly vendor: string
  /** Hex sha-256, so that whoever remembers it does not keep a list of names. */
  readonly person: string
}

/**
 * Remembers suppressions, for every organization of a deployment: what a person asked of a vendor does not depend on who
 * asks the vendor. Deployments that restart often, or run side by side, bring a durable one.
 */
export interface Suppressions {
  add(suppression: Suppression): Promise<void>
  has(suppression: Suppression): Promise<boolean>
}

/** Suppressions in the memory of this process. */
export function suppressionsInMemory({ size = 10_000 }: { readonly size?: number } = {}): Suppressions {
  const known = new Set<string>()
  return {
    add: async (suppression) => {
      known.add(keyOf(suppression))
      for (const oldest of known) {
        if (known.size <= size) break
        known.delete(oldest)
      }
    },
    has: async (suppression) => known.has(keyOf(suppression)),
  }
}

function keyOf({ vendor, person }: Suppression): string {
  return `${vendor}:${person}`
}

/** The same for every spelling of a name and a place that differs in case, spaces or composed letters alone. */
export function personDigest(name: string, place: string): string {
  const plain = [name, place].map((text) => text.normalize('NFKC').toLowerCase().trim().replaceAll(/\s+/g, ' '))
  return createHash('sha256').update(JSON.stringify(plain)).digest('hex')
}
