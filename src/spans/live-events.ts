/** Tells live views of this process that something about a run changed. A view in another process polls. */
export interface LiveEvents {
  readonly changed: (organizationId: string, runId: string) => void
  readonly text: (runId: string, delta: string) => void
  /** Answers how to stop listening. */
  readonly subscribe: (runId: string, listener: (event: LiveEvent) => void) => () => void
}

export type LiveEvent = { readonly kind: 'changed' } | { readonly kind: 'text'; readonly delta: string }

export function liveEvents(): LiveEvents {
  const listeners = new Map<string, Set<(event: LiveEvent) => void>>()
  const tell = (runId: string, event: LiveEvent): void => {
    for (const listener of listeners.get(runId) ?? []) listener(event)
  }
  return {
    changed: (_organizationId, runId) => tell(runId, { kind: 'changed' }),
    text: (runId, delta) => tell(runId, { kind: 'text', delta }),
    subscribe(runId, listener) {
      const own = listeners.get(runId) ?? new Set()
      listeners.set(runId, own.add(listener))
      return () => {
        own.delete(listener)
        if (own.size === 0) listeners.delete(runId)
      }
    },
  }
}
