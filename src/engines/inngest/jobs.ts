import type { InngestFunction } from 'inngest'
import { isJsonObject } from '../../tools/json.ts'
import { atOf, dataOf, jobEvent } from './events.ts'
import { keepingFaults, lastFault, type FunctionParts } from './function-parts.ts'

/** One function a job, started by its event. */
export function jobFunctions({ client, work, logger }: FunctionParts): InngestFunction.Any[] {
  return Object.entries(work.jobs).map(([name, job]) =>
    client.createFunction(
      {
        id: `job-${name}`,
        name,
        triggers: [{ event: job.event ?? jobEvent(name) }],
        retries: job.retries as 0,
        checkpointing: false,
        async onFailure({ event, error }) {
          await keepingFaults({ logger, what: { job: name } }, () =>
            job.onFinalFailure(dataOf(event.data.event), lastFault(error)),
          )
        },
      },
      async ({ event, step, attempt }) => {
        const at = isJsonObject(event.data) ? atOf(event.data) : null
        if (at !== null) await step.sleepUntil('at', new Date(at))
        await step.run('run', () =>
          keepingFaults({ logger, what: { job: name, attempt: attempt + 1 } }, () =>
            job.run(dataOf(event), attempt + 1),
          ),
        )
      },
    ),
  )
}
