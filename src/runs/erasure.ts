import type { Actor } from '../tools/invocation.ts'

/** Removes what an organization's database holds about one person, found by their address. */
export interface ErasureRequest {
  readonly organizationId: string
  readonly email: string
  /** Who asks for it. */
  readonly by: Actor
}

/** Rows removed or changed, by table. */
export type ErasureCounts = Readonly<Record<string, number>>

/** Where the address still stands, because people wrote it there on purpose: somebody has to edit it. */
export interface ErasureRemains {
  readonly definitions: readonly string[]
  readonly rules: readonly string[]
  readonly connections: readonly string[]
  /** Whether the address is that of somebody who signs in here. */
  readonly member: boolean
}

export interface Erasure {
  readonly id: string
  readonly erasedAt: Date
  readonly counts: ErasureCounts
  readonly remains: ErasureRemains
}

export type ErasureOutcome =
  | { readonly kind: 'erased'; readonly erasure: Erasure }
  /** Runs that have not ended hold the address: they would go on with it, or without what they need. */
  | { readonly kind: 'open_runs'; readonly runIds: readonly string[] }
  | { readonly kind: 'no_address' }

/** That somebody was erased; who it was is known to whoever knows the address. */
export interface ErasureRecord {
  readonly id: string
  readonly erasedAt: Date
  readonly erasedBy: Actor
  readonly counts: ErasureCounts
}

export interface ErasureStore {
  /** In one transaction: everything, or nothing. */
  erase(request: ErasureRequest): Promise<ErasureOutcome>
  /** Newest first. */
  list(organizationId: string): Promise<readonly ErasureRecord[]>
  /** Whether an address was erased before, and when last. */
  erasedAt(organizationId: string, email: string): Promise<Date | null>
}
