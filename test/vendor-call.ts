import { v7 as uuidv7 } from 'uuid'
import { UpstreamUnavailableError, RetryableUpstreamError } from '../src/tools/errors.ts'
import { VendorError, type VendorTrouble } from '../src/handlers/vendor/vendor-error.ts'
import type { RetryBudget } from '../src/handlers/vendor/retry-budget.ts'
import type { ToolDeclaration } from '../src/tools/declarations.ts'
import type { UsageRecord } from '../src/tools/invocation.ts'
import type { JsonObject } from '../src/tools/json.ts'
import type { HandlerAnswer } from '../src/tools/models.ts'
import type { VendorFault } from '../simulators/vendor-server.ts'
import { callHandler, testRun } from './handler-call.ts'

/** What became of a call of a metered tool, and what it recorded. */
export interface MeteredCall {
  readonly answer: HandlerAnswer<unknown> | null
  readonly raised: unknown
  readonly usage: readonly UsageRecord[]
}

export async function callMetered(
  declaration: ToolDeclaration,
  args: JsonObject,
  signal: AbortSignal = new AbortController().signal,
): Promise<MeteredCall> {
  const usage: UsageRecord[] = []
  const meter = {
    async record(row: UsageRecord): Promise<string> {
      usage.push(row)
      return uuidv7()
    },
  }
  try {
    const answer = await callHandler(declaration, { run: testRun(), args, context: { meter, signal } })
    return { answer, raised: null, usage }
  } catch (raised) {
    return { answer: null, raised, usage }
  }
}

/** How a failed read leaves its handler, by exact class, and the vendor's trouble behind it. */
export function raisedAs({ raised }: MeteredCall): readonly [how: string, trouble: VendorTrouble | null] {
  const behind = raised instanceof VendorError ? raised : (raised as Error | null)?.cause
  const trouble = behind instanceof VendorError ? behind.trouble : null
  const constructor = (raised as object | null)?.constructor
  if (constructor === RetryableUpstreamError) return ['retryable', trouble]
  if (constructor === UpstreamUnavailableError) return ['unavailable', trouble]
  return [constructor === VendorError ? 'fault' : 'something else', trouble]
}

/** Pauses are short, and no attempt runs out of time unless that is what a test is about. */
export const BRISK: RetryBudget = { attempts: 2, attemptMs: 20_000, backoffMs: 1, maxPauseMs: 20 }

/** For faults that end by running out of time. */
export const IMPATIENT: RetryBudget = { ...BRISK, attemptMs: 400 }

export interface FaultRow {
  readonly says: string
  readonly faults: readonly VendorFault[]
  readonly raised: 'retryable' | 'unavailable' | 'fault'
  readonly trouble: VendorTrouble
  /** Requests at the vendor. */
  readonly requests: number
  readonly budget?: RetryBudget
}

const answer = (status: number, rest: { body?: unknown; headers?: Record<string, string> } = {}): VendorFault => ({
  kind: 'answer',
  status,
  ...rest,
})

const fault = (says: string, given: VendorFault, trouble: VendorTrouble): FaultRow => ({
  says,
  faults: [given],
  raised: 'fault',
  trouble,
  requests: 1,
})

const unknown = (says: string, given: VendorFault, trouble: VendorTrouble): FaultRow => ({
  ...fault(says, given, trouble),
  raised: 'retryable',
})

/** What every vendor's read has to do about what goes wrong on the way; none of it writes a usage row. */
export const READ_FAULTS: readonly FaultRow[] = [
  { ...unknown('rate limited', answer(429), 'rate_limited'), faults: [answer(429), answer(429)], requests: 2 },
  unknown('rate limited for longer than a pause', answer(429, { headers: { 'retry-after': '60' } }), 'rate_limited'),
  { ...unknown('overloaded', answer(503), 'overloaded'), faults: [answer(503), answer(503)], requests: 2 },
  unknown('broken', answer(500, { body: 'oh no' }), 'server'),
  unknown('broken, and asking for a repeat', answer(500, { headers: { 'x-should-retry': 'true' } }), 'server'),
  unknown('behind a broken gateway', answer(502, { headers: { 'content-type': 'text/html' } }), 'server'),
  unknown('too slow for its gateway', answer(504), 'server'),
  unknown('tired of waiting for the request', answer(408), 'timeout'),
  unknown('gone before it answers', { kind: 'reset' }, 'transport'),
  unknown('gone after the work', { kind: 'lost_answer' }, 'transport'),
  { ...unknown('silent', { kind: 'hang' }, 'timeout'), budget: IMPATIENT },
  { ...unknown('silent in the middle of a body', { kind: 'stalled_body' }, 'timeout'), budget: IMPATIENT },
  fault('answering half a JSON', { kind: 'malformed' }, 'decode'),
  fault('answering a page for people', { kind: 'html' }, 'decode'),
  fault('answering nothing', { kind: 'empty_body' }, 'decode'),
  fault('answering that there is no content', answer(204, { body: '' }), 'decode'),
  fault('answering another shape', answer(200, { body: { results: 'none' } }), 'decode'),
  fault('answering JSON that is no object', answer(200, { body: [] }), 'decode'),
  fault('refusing our key', answer(401), 'authentication'),
  fault('refusing our account', answer(403), 'authentication'),
  fault('out of money', answer(402), 'payment'),
  fault('refusing the request', answer(400), 'request'),
  fault('refusing the fields', answer(422), 'request'),
  fault('elsewhere', answer(404), 'request'),
  fault('in conflict', answer(409), 'request'),
  { ...fault('forbidden to do this by law', answer(451), 'refused'), raised: 'unavailable' },
]
