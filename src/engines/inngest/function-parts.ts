import type { Inngest } from 'inngest'
import type { EngineWork } from '../../runs/engine.ts'
import { faultKind, WorkFault } from '../../runs/engine-work.ts'
import type { Logger } from '../../tools/invoker.ts'

/** What every function is built from. */
export interface FunctionParts {
  readonly client: Inngest
  readonly work: EngineWork
  readonly logger: Logger
}

/** Inngest stores and shows what a step raises, so a fault leaves as its kind; the rest stays in our log. */
export async function keepingFaults<T>(
  { logger, what }: { readonly logger: Logger; readonly what: Readonly<Record<string, unknown>> },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    logger.error('work for Inngest failed', { ...what, error })
    const fault = new WorkFault(faultKind(error))
    delete fault.stack
    throw fault
  }
}

/** What came back from Inngest about the last try: ours, or what it says itself of a request that never answered. */
export function lastFault(error: unknown): WorkFault {
  const message = error instanceof Error ? error.message : ''
  const kept = /^([A-Za-z][\w.-]{0,63}); the log has the details$/.exec(message)
  return new WorkFault(kept?.[1] ?? 'Lost')
}
