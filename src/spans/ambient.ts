import { AsyncLocalStorage } from 'node:async_hooks'

/** Where in which run tree the code that is running now stands. */
export interface SpanScope {
  readonly organizationId: string
  readonly runId: string
  readonly rootRunId: string
  readonly spanId: string
}

const scopes = new AsyncLocalStorage<SpanScope>()

/** The innermost scope, or null outside a run. A metered call there cannot name its run tree and is refused. */
export function currentScope(): SpanScope | null {
  return scopes.getStore() ?? null
}

/** Runs `work` inside a scope. The one place that sets span identity: no invocation, request or handler carries a copy. */
export function withScope<T>(scope: SpanScope, work: () => T): T {
  return scopes.run(scope, work)
}
