import type { DurableJob } from '../runs/engine.ts'
import type { ErrorReporter } from '../tools/invoker.ts'
import { COMPLETED_EVENT, FETCH_JOB, fetchRequestOf, jobNamedBy, SETTLE_JOB } from './events.ts'
import { fetchJobResult, type FetchDependencies } from './fetch-result.ts'
import { settleJob, type SettlementDependencies } from './settle.ts'

export interface JobWorkDependencies extends Omit<FetchDependencies, 'store'> {
  readonly store: FetchDependencies['store'] & SettlementDependencies['store']
  readonly reporter: ErrorReporter
}

/** As every metered path. */
const SETTLE_RETRIES = 3

/** The pauses between them double up to a minute: about ten minutes for a vendor that does not answer. */
const FETCH_RETRIES = 12

/** What an engine does about jobs, by name. Whatever is given up is reported once and stays visible at the job. */
export function providerJobWork(deps: JobWorkDependencies): Readonly<Record<string, DurableJob>> {
  const report =
    (says: string) =>
    async (payload: Parameters<DurableJob['run']>[0], fault: Error): Promise<void> => {
      const { provider, jobId } = jobNamedBy(payload)
      deps.reporter.report(new Error(`${provider}: ${says}`, { cause: fault }), { provider, jobId })
    }
  return {
    [SETTLE_JOB]: {
      event: COMPLETED_EVENT,
      retries: SETTLE_RETRIES,
      run: async (payload) => void (await settleJob(deps, jobNamedBy(payload))),
      onFinalFailure: report('the cost of an ended job could not be written down'),
    },
    [FETCH_JOB]: {
      retries: FETCH_RETRIES,
      run: (payload) => fetchJobResult(deps, fetchRequestOf(payload)),
      onFinalFailure: report('the result of an ended job could not be fetched'),
    },
  }
}
