import type { FactRequest, FactResolver } from '../tools/handler.ts'
import type { JsonValue } from '../tools/json.ts'
import { isOfFactType } from './vocabulary.ts'

/** Facts an enforced rule reads, and those that only shadow rules read. An array means all are needed. */
export type FactNames =
  | readonly string[]
  | { readonly needed: readonly string[]; readonly forShadow: readonly string[] }

export type FactResolution =
  /** Facts for shadow rules that could not be resolved are left out. */
  | { readonly kind: 'resolved'; readonly facts: Readonly<Record<string, JsonValue>> }
  | {
      readonly kind: 'fault'
      readonly name: string
      /** Ours; it repeats nothing a resolver said, because those may quote data or a database. */
      readonly message: string
      /** For the log alone. */
      readonly cause: unknown
    }

/** Bytes of one fact as JSON: it is stored with the decision and shown to the person who decides. */
export const MAX_FACT_BYTES = 16 * 1024

/** Milliseconds a fact that decides nothing may take: it must not use up the deadline of the call. */
export const SHADOW_FACT_TIMEOUT_MS = 2000

/**
 * Resolves facts in parallel, until the signal of the request aborts. A throw, an answer of another type than declared,
 * and no answer in time are faults: a rule that reads the fact could not be evaluated, so nothing may run.
 */
export async function resolveFacts(
  request: FactRequest,
  names: FactNames,
  resolvers: ReadonlyMap<string, FactResolver>,
): Promise<FactResolution> {
  const { needed, forShadow } = 'needed' in names ? names : { needed: names, forShadow: [] }
  const stop = new AbortController()
  const signal = AbortSignal.any([request.signal, stop.signal])
  const ask = (name: string): Promise<Answer> => resolveOne(name, resolvers.get(name), { ...request, signal })
  try {
    const shadow = Promise.all(forShadow.map((name) => inTime(ask(name), name)))
    const answers = await allOrFault(needed.map(ask))
    if ('message' in answers) return { kind: 'fault', ...answers }
    const extra = (await shadow).filter((answer) => 'value' in answer)
    return {
      kind: 'resolved',
      facts: Object.fromEntries([...answers, ...extra].map(({ name, value }) => [name, value])),
    }
  } finally {
    // Whoever still works for this call works for nothing.
    stop.abort()
  }
}

interface Found {
  readonly name: string
  readonly value: JsonValue
}

interface Missed {
  readonly name: string
  readonly message: string
  readonly cause: unknown
}

type Answer = Found | Missed

/** The first fault ends the wait: the others could not change what it means. */
async function allOrFault(asked: readonly Promise<Answer>[]): Promise<readonly Found[] | Missed> {
  const fault = Promise.withResolvers<Missed>()
  const found = Promise.all(
    asked.map(async (pending) => {
      const answer = await pending
      if ('value' in answer) return answer
      fault.resolve(answer)
      return null
    }),
  )
  return Promise.race([fault.promise, found.then((answers) => answers.filter((answer) => answer !== null))])
}

async function resolveOne(name: string, resolver: FactResolver | undefined, request: FactRequest): Promise<Answer> {
  if (resolver === undefined) return { name, message: `nothing resolves the fact ${name}`, cause: null }
  let value: unknown
  try {
    value = await untilAborted(request.signal, () => resolver.resolve(request))
  } catch (cause) {
    const message = request.signal.aborted
      ? `the fact ${name} did not come in time`
      : `the fact ${name} could not be resolved`
    return { name, message, cause }
  }
  if (!isOfFactType(resolver.type, value)) {
    return { name, message: `the fact ${name} is not the ${resolver.type} it is declared to be`, cause: null }
  }
  const plain = plainJson(value)
  return 'value' in plain
    ? { name, value: plain.value }
    : { name, message: `the fact ${name} ${plain.problem}`, cause: plain.cause }
}

/** A copy: what was decided on must not change afterwards, and must be what the decision row stores. */
function plainJson(
  value: unknown,
): { readonly value: JsonValue } | { readonly problem: string; readonly cause: unknown } {
  try {
    const text = JSON.stringify(value)
    if (Buffer.byteLength(text) > MAX_FACT_BYTES)
      return { problem: `is larger than ${MAX_FACT_BYTES} bytes`, cause: null }
    return { value: JSON.parse(text) as JsonValue }
  } catch (cause) {
    return { problem: 'cannot be written as JSON', cause }
  }
}

/** A resolver that ignores the signal is abandoned, not waited for. */
async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const aborted = Promise.withResolvers<never>()
  const abort = (): void => aborted.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work(), aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

async function inTime(pending: Promise<Answer>, name: string): Promise<Answer> {
  const late = Promise.withResolvers<Answer>()
  const timer = setTimeout(
    () => late.resolve({ name, message: `the fact ${name} did not come in time`, cause: null }),
    SHADOW_FACT_TIMEOUT_MS,
  )
  try {
    return await Promise.race([pending, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
