import type { ErrorReporter, Logger } from '../tools/invoker.ts'
import { retentionWindows, type OrganizationRetention, type Retention, type RetentionWindows } from './retention.ts'

/** Rows removed, by table. */
export type Removed = Readonly<Record<string, number>>

export interface SweepReport {
  readonly removed: Removed
  /** Whether there was more to do than one sweep does; the next one goes on. */
  readonly more: boolean
  /** Organizations whose retention settings cannot be read: nothing of theirs was removed. */
  readonly unreadable: readonly string[]
  /** Days whose usage was summed up, as YYYY-MM-DD. */
  readonly summed: readonly string[]
}

/** One batch of one kind of rows: a bounded statement, so that no lock is held for long. */
export interface RetentionBatch {
  readonly removed: Removed
  readonly more: boolean
}

export interface RetentionStore {
  /** Organizations with retention settings of their own. */
  settings(): Promise<readonly OrganizationRetention[]>
  /** The kinds of work, in the order in which they are done; each is repeated until it says that nothing is left. */
  readonly kinds: readonly string[]
  remove(kind: string, windows: RetentionWindows, now: Date): Promise<RetentionBatch>
}

export interface UsageRollup {
  /** Sums up the days that are over and not summed yet, and the last ones again for rows that came late. */
  roll(now: Date): Promise<readonly string[]>
}

/** Which of several processes does what is due. */
export interface UpkeepTurns {
  /** True for one caller a period. */
  take(name: string, now: Date, periodS: number): Promise<boolean>
  /** Makes it due again at once. */
  giveBack(name: string, now: Date): Promise<void>
}

/** What has to be done from time to time by one process of all. */
export interface Upkeep {
  /** Looks whether something is due and does it behind the caller's back. Cheap: most ticks do nothing. */
  tick(): void
  /** Does it now, whoever's turn it is. */
  sweep(now: Date): Promise<SweepReport>
  /** Resolves when nothing that a tick began is in flight. */
  idle(): Promise<void>
  /** Takes no new batch and waits for the one in flight. */
  stop(): Promise<void>
}

export interface UpkeepDependencies {
  readonly retention: Retention
  readonly store: RetentionStore
  readonly rollup: UsageRollup
  readonly turns: UpkeepTurns
  /** Done every minute by every process. */
  readonly everyMinute?: () => Promise<void>
  readonly logger: Logger
  readonly reporter: ErrorReporter
  readonly now: () => Date
}

const NAME = 'retention'
const PERIOD_S = 3_600
const LOOK_MS = 60_000
/** Batches of one sweep: what is left waits for the next look, so that a first sweep of years is spread out. */
const BATCHES = 500

export function createUpkeep(deps: UpkeepDependencies): Upkeep {
  let nextLook = 0
  let looking: Promise<void> | null = null
  let stopping = false
  const sweep = (now: Date): Promise<SweepReport> => sweepOnce(deps, now, () => stopping)
  const look = async (now: Date): Promise<void> => {
    try {
      await deps.everyMinute?.()
      if (!(await deps.turns.take(NAME, now, PERIOD_S))) return
      const report = await sweep(now)
      if (report.more) await deps.turns.giveBack(NAME, now)
      tell(deps.logger, report)
    } catch (error) {
      deps.reporter.report(error, { part: 'upkeep' })
    }
  }
  return {
    sweep,
    tick() {
      const now = deps.now()
      if (stopping || looking !== null || now.getTime() < nextLook) return
      nextLook = now.getTime() + LOOK_MS
      looking = look(now).finally(() => {
        looking = null
      })
    },
    async idle() {
      await looking
    },
    async stop() {
      stopping = true
      await looking
    },
  }
}

async function sweepOnce(deps: UpkeepDependencies, now: Date, isStopping: () => boolean): Promise<SweepReport> {
  const summed = await deps.rollup.roll(now)
  const windows = retentionWindows(deps.retention, await deps.store.settings(), now)
  const removed: Record<string, number> = {}
  let left = BATCHES
  let more = false
  for (const kind of deps.store.kinds) {
    for (;;) {
      if (left === 0 || isStopping()) {
        more = true
        break
      }
      left -= 1
      const batch = await deps.store.remove(kind, windows, now)
      for (const [table, count] of Object.entries(batch.removed)) removed[table] = (removed[table] ?? 0) + count
      if (!batch.more) break
    }
  }
  const unreadable = windows.organizations.flatMap(({ organizationId, cutoffs }) =>
    cutoffs === null ? [organizationId] : [],
  )
  return { removed, more, unreadable, summed }
}

function tell(logger: Logger, report: SweepReport): void {
  const rows = Object.values(report.removed).reduce((sum, count) => sum + count, 0)
  if (rows > 0) logger.info('removed what was kept long enough', { ...report.removed, more: report.more })
  if (report.unreadable.length > 0)
    logger.error('retention settings of an organization cannot be read; nothing of it is removed', {
      organizations: report.unreadable,
    })
}
