import { z } from 'zod'
import type { JsonValue } from '../../tools/json.ts'
import { BatchRow, BatchRowRef, BatchRows, type BatchStatus } from './wire.ts'

const CONFIDENCES = ['verified', 'probable', 'accepts_all', 'invalid', 'unverified'] as const
const RESULTS = ['found', 'not_found', 'missing', 'duplicate', 'malformed'] as const
const REASONS = ['credits_insufficient', 'rate_limited', 'cancelled', 'unknown'] as const

/** One requested contact: exactly one of these for each ref, in the order of the request. */
export const ContactResult = z.object({
  ref: z.string(),
  /** Null unless the vendor answered one address and does not call it invalid. */
  email: z.string().nullable(),
  /** The vendor's own grade. */
  providerStatus: z.string().nullable(),
  /** What the grade says; `unverified` where there is none that is known. */
  confidence: z.enum(CONFIDENCES).nullable(),
  /** `missing`: the vendor did not answer this ref; `duplicate`: it did more than once, and nobody can say which one counts. */
  result: z.enum(RESULTS),
})

export const Diagnostics = z.object({
  /** Refs that were asked for and did not come back. */
  missing: z.int(),
  /** Refs that came back more than once. */
  duplicate: z.int(),
  /** Rows that cannot be read. */
  malformed: z.int(),
  /** Rows with a ref that was not asked for; they are ignored. */
  unknown: z.int(),
})

export type ContactResult = z.output<typeof ContactResult>
export type Diagnostics = z.output<typeof Diagnostics>

export interface BatchView {
  readonly contacts: ContactResult[]
  readonly diagnostics: Diagnostics
}

/** Why a batch came to less than was asked for; null for one that finished. */
export const BatchReason = z.enum(REASONS).nullable()

/**
 * What a collect shows of a batch. Rows are found by the ref that the vendor echoes, and by nothing else: a row in the
 * place of another, or of the same name, may be somebody else's. No text of the vendor is passed on but the address and
 * the grade, both of limited length.
 */
export function batchView(refs: readonly string[], result: JsonValue | null): BatchView {
  const rows = rowsOf(result)
  const asked = new Set(refs)
  const byRef = Map.groupBy(rows, (row) => refOf(row))
  const answered = refs.map((ref) => contactOf(ref, byRef.get(ref) ?? []))
  const others = [...byRef].filter(([ref]) => ref !== null && !asked.has(ref))
  const withoutRef = byRef.get(null)?.length ?? 0
  return {
    contacts: answered,
    diagnostics: {
      missing: countOf(answered, 'missing'),
      duplicate: countOf(answered, 'duplicate'),
      malformed: countOf(answered, 'malformed') + withoutRef,
      unknown: others.reduce((sum, [, found]) => sum + found.length, 0),
    },
  }
}

export function batchReason(result: JsonValue | null): z.output<typeof BatchReason> {
  const { data } = BatchRows.safeParse(result)
  const reason: Readonly<Partial<Record<BatchStatus, z.output<typeof BatchReason>>>> = {
    CREDITS_INSUFFICIENT: 'credits_insufficient',
    RATE_LIMIT: 'rate_limited',
    CANCELED: 'cancelled',
    UNKNOWN: 'unknown',
  }
  const status = data?.status ?? ''
  return Object.hasOwn(reason, status) ? (reason[status as BatchStatus] ?? null) : null
}

function rowsOf(result: JsonValue | null): readonly unknown[] {
  const { data } = BatchRows.safeParse(result)
  return data?.data ?? data?.datas ?? []
}

function refOf(row: unknown): string | null {
  return BatchRowRef.safeParse(row).data?.custom.ref ?? null
}

function contactOf(ref: string, rows: readonly unknown[]): ContactResult {
  const nothing = { ref, email: null, providerStatus: null, confidence: null }
  const [row] = rows
  if (row === undefined) return { ...nothing, result: 'missing' }
  if (rows.length > 1) return { ...nothing, result: 'duplicate' }
  const { data } = BatchRow.safeParse(row)
  if (data === undefined) return { ...nothing, result: 'malformed' }
  const found = data.contact_info?.most_probable_work_email
  const providerStatus = gradeOf(found?.status)
  const email = found?.email ?? ''
  if (email === '') return { ...nothing, providerStatus, result: 'not_found' }
  if (!EMAIL.test(email)) return { ...nothing, providerStatus, result: 'malformed' }
  const confidence = confidenceOf(providerStatus)
  if (confidence === 'invalid') return { ...nothing, providerStatus, confidence, result: 'not_found' }
  return { ref, email, providerStatus, confidence, result: 'found' }
}

/** As long as an address can be in SMTP. Nothing that would need escaping or could be read as an instruction. */
const EMAIL = /^(?=.{3,254}$)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$/

/** In one case: a page of the vendor's documentation writes one of them differently. */
function gradeOf(status: string | null | undefined): string | null {
  const grade = status?.toUpperCase() ?? ''
  return /^[A-Z_]{1,32}$/.test(grade) ? grade : null
}

/** Only an explicit grade is a verification. */
function confidenceOf(grade: string | null): (typeof CONFIDENCES)[number] {
  switch (grade) {
    case 'DELIVERABLE':
      return 'verified'
    case 'HIGH_PROBABILITY':
      return 'probable'
    case 'CATCH_ALL':
      return 'accepts_all'
    case 'INVALID':
    case 'INVALID_DOMAIN':
      return 'invalid'
    default:
      return 'unverified'
  }
}

function countOf(contacts: readonly ContactResult[], result: ContactResult['result']): number {
  return contacts.filter((contact) => contact.result === result).length
}
