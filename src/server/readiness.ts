import type { RuntimeHealth } from '../runtime.ts'
import type { Database } from '../storage/database.ts'
import { MigrationRefused } from '../storage/errors.ts'
import { ping } from '../storage/health.ts'
import { pendingMigrations } from '../storage/migrate.ts'
import { anyRunHeld } from '../storage/operations-store.ts'
import type { Logger } from '../tools/invoker.ts'

export interface ReadinessReason {
  readonly check: 'stop' | 'database' | 'migrations' | 'engine' | 'runs'
  /** For an operator; names nothing of an organization's. */
  readonly message: string
}

export interface ReadinessReport {
  /** `degraded` serves requests like `ok`, and somebody should look. */
  readonly state: 'ok' | 'degraded' | 'unready'
  readonly reasons: readonly ReadinessReason[]
}

/** Whether requests should be sent to this process. */
export interface Readiness {
  /** Not ready from now on, before anything is closed: whoever spreads requests needs time to notice. */
  stopping(): void
  report(): Promise<ReadinessReport>
}

export interface ReadinessParts {
  readonly database: Database
  readonly engine: () => RuntimeHealth
  readonly logger: Logger
  /** Milliseconds the database has to answer. */
  readonly withinMs?: number
}

const WITHIN_MS = 2_000

export function readinessOf(parts: ReadinessParts): Readiness {
  let stopping = false
  return {
    stopping() {
      stopping = true
    },
    async report() {
      if (stopping) return unready({ check: 'stop', message: 'the server is stopping' })
      const fault = await faultOf(parts)
      if (fault !== null) return unready(fault)
      const { state } = parts.engine()
      if (state !== 'taking')
        return unready({
          check: 'engine',
          message: state === 'idle' ? 'the engine has not started' : 'the engine takes no more work',
        })
      const reasons = await worries(parts)
      return { state: reasons.length === 0 ? 'ok' : 'degraded', reasons }
    },
  }
}

function unready(reason: ReadinessReason): ReadinessReport {
  return { state: 'unready', reasons: [reason] }
}

/** A newer process of a rolling deploy may have brought the database further: the older ones go on serving. */
async function faultOf({ database, logger, withinMs = WITHIN_MS }: ReadinessParts): Promise<ReadinessReason | null> {
  try {
    const pending = await within(withinMs, async () => {
      await ping(database)
      return pendingMigrations(database)
    })
    if (pending.length === 0) return null
    return { check: 'migrations', message: `the database lacks ${pending.join(', ')}: run bailiff migrate` }
  } catch (error) {
    if (error instanceof MigrationRefused)
      return error.reason === 'newer_database' ? null : { check: 'migrations', message: error.message }
    logger.warn('the database does not answer', { error })
    const late = error instanceof Late ? ` within ${withinMs} ms` : ''
    return { check: 'database', message: `the database does not answer${late}` }
  }
}

async function worries({ database }: ReadinessParts): Promise<ReadinessReason[]> {
  return (await anyRunHeld(database))
    ? [{ check: 'runs', message: 'runs are held until an operator lets them go on' }]
    : []
}

class Late extends Error {
  override readonly name = 'Late'
}

async function within<T>(ms: number, work: () => Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Late(`no answer within ${ms} ms`)), ms)
  try {
    return await Promise.race([work(), late])
  } finally {
    clearTimeout(timer)
  }
}
