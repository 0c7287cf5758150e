import type { PgBoss } from 'pg-boss'
import { v5 as uuidv5 } from 'uuid'
import { tickAt } from '../../runs/cron.ts'
import type { Cron } from '../../runs/engine.ts'
import type { Logger } from '../../tools/invoker.ts'

interface QueuedTick {
  /** ISO 8601. */
  readonly tick: string
}

export interface CronTicks {
  /** Sends no more ticks, and waits for the one on its way. */
  stop(): Promise<void>
}

const TICK_IDS = '8c3f0a4e-7d25-4b6e-9a0b-2d1e5c7f4a63'
const LOOK_MS = 1_000
/** Longer than any tick that one clock can name twice. */
const TWO_DAYS_S = 172_800

/**
 * Every process sends the tick that its clock says has begun, under an id made of cron and tick: the queue keeps one of
 * them. So a tick is missed only while no process runs at all, and nothing about times is stored.
 */
export async function cronTicks(
  boss: PgBoss,
  { crons, logger }: { readonly crons: readonly Cron[]; readonly logger: Logger },
): Promise<CronTicks> {
  for (const cron of crons) {
    const queue = queueOf(cron)
    await boss.createQueue(queue, { retryLimit: 0, deleteAfterSeconds: TWO_DAYS_S, notify: true })
    const pull = { batchSize: 1, pollingIntervalSeconds: 1, notifyPollingIntervalSeconds: 2 }
    await boss.work<QueuedTick>(queue, pull, async (jobs) => {
      for (const { data } of jobs) await runTick(cron, new Date(data.tick), logger)
    })
  }
  const sent = new Map<string, number>()
  const look = async (): Promise<void> => {
    for (const cron of crons) {
      const tick = tickAt(cron.every, new Date())
      if (tick === null || sent.get(cron.name) === tick.getTime()) continue
      const id = uuidv5(`${cron.name}@${tick.toISOString()}`, TICK_IDS)
      await boss.send(queueOf(cron), { tick: tick.toISOString() } satisfies QueuedTick, { id })
      sent.set(cron.name, tick.getTime())
    }
  }
  let looking: Promise<void> | null = null
  const timer = setInterval(() => {
    looking ??= look()
      .catch((error: unknown) => logger.error('a tick could not be sent; the next look sends it', { error }))
      .finally(() => (looking = null))
  }, LOOK_MS)
  return {
    async stop() {
      clearInterval(timer)
      await looking
    },
  }
}

async function runTick(cron: Cron, tick: Date, logger: Logger): Promise<void> {
  try {
    await cron.run(tick)
  } catch (error) {
    logger.error('work of the clock failed; it waits for the next tick', { cron: cron.name, error })
  }
}

function queueOf({ name }: Cron): string {
  return `bailiff-cron.${name}`
}
