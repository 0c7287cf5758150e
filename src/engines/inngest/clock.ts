import type { InngestFunction } from 'inngest'
import { cronText } from '../../runs/cron.ts'
import { keepingFaults, type FunctionParts } from './function-parts.ts'

const MINUTE_MS = 60_000

/** Looks for due runs every minute: Inngest's clock knows no less. */
export function sweepFunction({
  client,
  work,
  logger,
  wakeAll,
}: FunctionParts & { readonly wakeAll: (runIds: readonly string[]) => Promise<void> }): InngestFunction.Any {
  return client.createFunction(
    {
      id: 'sweep',
      name: 'Look for due runs',
      triggers: [{ cron: 'TZ=UTC * * * * *' }],
      concurrency: 1,
      // The next one is a minute away.
      retries: 0,
      checkpointing: false,
    },
    ({ step }) =>
      step.run('sweep', () =>
        keepingFaults({ logger, what: { work: 'sweep' } }, async () => {
          const due = await work.sweep()
          await wakeAll(due)
          return due.length
        }),
      ),
  )
}

export function cronFunctions({ client, work, logger }: FunctionParts): InngestFunction.Any[] {
  return work.crons.map((cron) =>
    client.createFunction(
      {
        id: `cron-${cron.name}`,
        triggers: [{ cron: `TZ=UTC ${cronText(cron.every)}` }],
        concurrency: 1,
        retries: 0,
        checkpointing: false,
      },
      async ({ event, step }) => {
        const tick = new Date(Math.floor((event.ts ?? Date.now()) / MINUTE_MS) * MINUTE_MS)
        await step.run('run', () => keepingFaults({ logger, what: { cron: cron.name } }, () => cron.run(tick)))
      },
    ),
  )
}
