import { retentionOf, type RetentionSettings } from '../runs/retention.ts'
import { createUpkeep, type Upkeep } from '../runs/upkeep.ts'
import type { ErrorReporter, Logger } from '../tools/invoker.ts'
import type { Database } from './database.ts'
import { retentionStore } from './retention-store.ts'
import { upkeepTurns } from './upkeep-turns.ts'
import { usageRollup } from './usage-rollup.ts'

export interface DatabaseUpkeepOptions {
  readonly retention?: RetentionSettings | undefined
  readonly logger?: Logger
  readonly reporter?: ErrorReporter
  readonly now?: () => Date
  /** Done every minute by every process that ticks. */
  readonly everyMinute?: () => Promise<void>
}

const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/**
 * Retention and daily sums of a database, of every organization on it. A server does this by itself; a program of your
 * own calls `sweep(new Date())` from a cron route, or `tick()` from time to time.
 *
 * @throws ValidationError for retention settings that make no sense
 */
export function databaseUpkeep(database: Database, options: DatabaseUpkeepOptions = {}): Upkeep {
  const logger = options.logger ?? SILENT
  return createUpkeep({
    retention: retentionOf(options.retention ?? {}),
    store: retentionStore(database),
    rollup: usageRollup(database),
    turns: upkeepTurns(database),
    ...(options.everyMinute === undefined ? {} : { everyMinute: options.everyMinute }),
    logger,
    reporter: options.reporter ?? {
      report: (error, context) => logger.error('a fault needs an operator', { error, ...context }),
    },
    now: options.now ?? (() => new Date()),
  })
}
