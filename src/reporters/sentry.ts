import type { ErrorReporter } from '../tools/invoker.ts'

export interface SentryOptions {
  readonly dsn: string
  readonly environment?: string
  readonly release?: string
}

export interface SentryReporter extends ErrorReporter {
  /** Waits for what was reported, at most this many milliseconds. Capturing only queues: a process that ends loses it. */
  flush(ms: number): Promise<boolean>
}

/** Characters kept of a message. */
const MAX_MESSAGE = 500

/**
 * Reports to Sentry through a client of its own: a process that uses Sentry for itself keeps its settings, and what
 * Sentry would collect by default (local variables, requests, console output) is not collected here at all.
 */
export async function sentryReporter(options: SentryOptions): Promise<SentryReporter> {
  const { NodeClient, Scope, defaultStackParser, makeNodeTransport } = await import('@sentry/node')
  const client = new NodeClient({
    ...options,
    integrations: [],
    sendClientReports: false,
    stackParser: defaultStackParser,
    transport: makeNodeTransport,
  })
  client.init()
  const scope = new Scope()
  scope.setClient(client)
  return {
    report(error, context) {
      const fault = error instanceof Error ? error : new Error(typeof error)
      scope.captureException(bounded(fault), {
        captureContext: { level: 'error', tags: { ...context }, fingerprint: fingerprintOf(fault, context) },
      })
    },
    flush: async (ms) => client.flush(ms),
  }
}

/** Sentry sends the object's causes and fields as well; this one has a name, a message and a stack. */
function bounded(fault: Error): Error {
  const copy = new Error(fault.message.slice(0, MAX_MESSAGE))
  copy.name = fault.name
  const frames = fault.stack?.split('\n').filter((line) => line.trimStart().startsWith('at ')) ?? []
  copy.stack = [`${copy.name}: ${copy.message}`, ...frames].join('\n')
  return copy
}

/**
 * What makes two reports one issue: the kind of fault and where it was met. Never an id, a URL or a message, which would
 * make every report an issue of its own.
 */
function fingerprintOf(error: Error, context: Readonly<Record<string, string>>): string[] {
  const parts = [error.name, context['tool'], context['cause'], text(error, 'vendor'), text(error, 'trouble')]
  return parts.filter((part) => part !== undefined)
}

function text(error: Error, field: string): string | undefined {
  const value: unknown = Reflect.get(error, field)
  return typeof value === 'string' ? value : undefined
}
