import { ValidationError } from '../tools/errors.ts'

/** How long a deployment or an organization keeps what its agents did. */
export interface RetentionSettings {
  /** Days the run tree keeps its spans with their payloads, and decisions. 90 unless set. */
  readonly spansDays?: number
  /** Calendar months an ended run stays, with its journal, its questions and everything else of it. 13 unless set. */
  readonly runsMonths?: number
  /** Calendar months of single usage rows; null keeps them, because they are money. Daily sums always stay. */
  readonly usageMonths?: number | null
}

/** Whole settings. */
export type Retention = Required<RetentionSettings>

export const DEFAULT_RETENTION: Retention = { spansDays: 90, runsMonths: 13, usageMonths: null }

/** What is older than these goes. Null keeps everything. */
export interface Cutoffs {
  readonly spans: Date
  readonly runs: Date
  readonly usage: Date | null
}

/** Cutoffs of a deployment, and of the organizations that differ from it. */
export interface RetentionWindows {
  readonly usual: Cutoffs
  /** Null where the stored settings cannot be read: then nothing of the organization goes. */
  readonly organizations: readonly { readonly organizationId: string; readonly cutoffs: Cutoffs | null }[]
}

export interface OrganizationRetention {
  readonly organizationId: string
  /** As stored: whoever wrote it may have written anything. */
  readonly retention: unknown
}

const LIMITS = { spansDays: 3_660, runsMonths: 120, usageMonths: 120 } as const

/** @throws ValidationError for a value that is no whole number in range */
export function retentionOf(settings: RetentionSettings): Retention {
  const read = readRetention(settings)
  if (read === null)
    throw new ValidationError(
      `retention takes spansDays (1 to ${LIMITS.spansDays}), runsMonths and usageMonths (1 to ${LIMITS.runsMonths}, usageMonths also null), whole numbers`,
    )
  return { ...DEFAULT_RETENTION, ...read }
}

export function retentionWindows(
  usual: Retention,
  organizations: readonly OrganizationRetention[],
  now: Date,
): RetentionWindows {
  return {
    usual: cutoffsOf(usual, now),
    organizations: organizations.map(({ organizationId, retention }) => {
      const own = readRetention(retention)
      return { organizationId, cutoffs: own === null ? null : cutoffsOf({ ...usual, ...own }, now) }
    }),
  }
}

/** A run never goes before its spans would: they are of no use without it, and their window is a promise too. */
function cutoffsOf({ spansDays, runsMonths, usageMonths }: Retention, now: Date): Cutoffs {
  const spans = new Date(now.getTime() - spansDays * 86_400_000)
  const runs = monthsBefore(now, runsMonths)
  return {
    spans,
    runs: runs < spans ? runs : spans,
    usage: usageMonths === null ? null : monthsBefore(now, usageMonths),
  }
}

/** The same day of an earlier month, or its last day where it has fewer. In UTC. */
export function monthsBefore(now: Date, months: number): Date {
  const first = new Date(now)
  first.setUTCDate(1)
  first.setUTCMonth(first.getUTCMonth() - months)
  const last = new Date(Date.UTC(first.getUTCFullYear(), first.getUTCMonth() + 1, 0)).getUTCDate()
  first.setUTCDate(Math.min(now.getUTCDate(), last))
  return first
}

function readRetention(value: unknown): RetentionSettings | null {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null
  const given = Object.entries(value).filter(([, held]) => held !== undefined)
  const fits = given.every(([name, held]) => {
    if (name === 'usageMonths' && held === null) return true
    const limit = Object.hasOwn(LIMITS, name) ? LIMITS[name as keyof typeof LIMITS] : 0
    return Number.isSafeInteger(held) && held >= 1 && held <= limit
  })
  return fits ? Object.fromEntries(given) : null
}
