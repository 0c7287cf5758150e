import type { ErrorReporter, Logger } from '../tools/invoker.ts'

/** Whoever reads the log must not need the reporter to learn of a fault. */
export function loggedToo(reporter: ErrorReporter, logger: Logger): ErrorReporter {
  return {
    report(error, context) {
      logger.error('a fault needs an operator', { error, ...context })
      reporter.report(error, context)
    },
  }
}
