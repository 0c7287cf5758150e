import type { Logger } from '../tools/invoker.ts'
import type { ObservedEvent, Observer } from './observer.ts'

export type Tell = (event: ObservedEvent) => void

/** Tells every observer; one that raises is named in the log and disturbs neither the others nor what is observed. */
export function telling(observers: readonly Observer[], logger: Logger): Tell {
  return (event) => {
    for (const observer of observers) {
      try {
        observer.observe(event)
      } catch (error) {
        logger.warn('an observer failed', { event: event.kind, error })
      }
    }
  }
}
