import type { Provenance } from '../provenance.ts'

/** An observation is what an agent found out; a preference is how somebody wants things done. */
export const MEMORY_KINDS = ['observation', 'preference'] as const

export type MemoryKind = (typeof MEMORY_KINDS)[number]

export interface Memory {
  readonly id: string
  readonly kind: MemoryKind
  /** Whom or what it is about, in lower case. */
  readonly subject: string
  readonly text: string
  readonly rememberedAt: Date
  /** False when a run remembered it: nobody in the organization vouched for it. */
  readonly trusted: boolean
}

export interface MemoryQuery {
  readonly organizationId: string
  /** Every word has to occur in subject or text, in any case; null finds every memory. */
  readonly text: string | null
  /** In any spelling; null for every subject. */
  readonly subject: string | null
  readonly kind: MemoryKind | null
  readonly limit: number
}

export interface MemoryContent {
  readonly organizationId: string
  readonly kind: MemoryKind
  readonly subject: string
  readonly text: string
  readonly provenance: Provenance
}

export interface MemoryKey {
  readonly organizationId: string
  readonly id: string
}

/** Memories of one organization. One that was forgotten is not there, for any of these. */
export interface MemoryStore {
  /** The same kind, subject and text, whatever their white space, are one row. One statement. */
  remember(content: MemoryContent): Promise<{ readonly id: string; readonly created: boolean }>
  /** The newest first. */
  search(query: MemoryQuery): Promise<readonly Memory[]>
  /** One statement. */
  forget(key: MemoryKey): Promise<'forgotten' | 'not_found'>
}
