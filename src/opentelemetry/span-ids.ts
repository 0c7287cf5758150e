import { randomBytes } from 'node:crypto'

/** As the SDKs of OpenTelemetry take it. */
export interface IdGenerator {
  generateTraceId(): string
  generateSpanId(): string
}

export interface SpanIdentity {
  readonly traceId: string
  readonly spanId: string
}

let wanted: SpanIdentity | null = null

/**
 * Ids for the SDK: those of Bailiff's own spans for Bailiff's spans, and random ones for all others. With it, a span that
 * one process exports is found as the parent of what another one did under it.
 */
export function spanIds(others: IdGenerator = RANDOM): IdGenerator {
  return {
    generateTraceId: () => wanted?.traceId ?? others.generateTraceId(),
    generateSpanId: () => wanted?.spanId ?? others.generateSpanId(),
  }
}

const RANDOM: IdGenerator = {
  generateTraceId: () => randomBytes(16).toString('hex'),
  generateSpanId: () => randomBytes(8).toString('hex'),
}

/** What is started inside `start`, which may not wait, has this identity if the SDK asks for one here. */
export function identified<T>(identity: SpanIdentity, start: () => T): T {
  wanted = identity
  try {
    return start()
  } finally {
    wanted = null
  }
}

/** A run tree is a trace, so that its id finds it. The half of a UUIDv7 that names a span is random. */
export function identityOf(rootRunId: string, spanId: string): SpanIdentity {
  return { traceId: rootRunId.replaceAll('-', ''), spanId: spanId.replaceAll('-', '').slice(16) }
}
