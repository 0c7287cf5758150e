import { createHash } from 'node:crypto'
import type { MemoryKind } from './memories.ts'

/** The one spelling of a subject: lower case, single spaces, composed characters. */
export function subjectKey(subject: string): string {
  return spaced(subject).toLowerCase().normalize('NFC')
}

/** Equal for what says the same with other white space. Case counts: it can be what is to be remembered. */
export function contentHash(kind: MemoryKind, text: string): Buffer {
  return createHash('sha256')
    .update(JSON.stringify([kind, spaced(text)]))
    .digest()
}

function spaced(text: string): string {
  return text.normalize('NFC').replace(/\s+/g, ' ').trim()
}
