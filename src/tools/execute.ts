import { setTimeout as pause } from 'node:timers/promises'
import { codeOf, endingOfClaim, type Observed } from '../decision/claim-ending.ts'
import { boundResult } from './result-boundary.ts'
import { callBudgetMs, DeadlineExceeded, withDeadline } from './deadline.ts'
import {
  ConflictError,
  ConnectionError,
  NotFoundError,
  OutcomeUnknownError,
  RetryableUpstreamError,
  UpstreamUnavailableError,
  ValidationError,
  type ErrorCode,
} from './errors.ts'
import {
  ClaimInFlight,
  type AdmittedCall,
  type CallLedger,
  type ConnectionResolver,
  type DecisionRecord,
} from './invoker.ts'
import type { Credential } from './invocation.ts'
import type { HandlerAnswer, ToolResult } from './models.ts'
import { validateOutput } from './output-validation.ts'
import type { ToolRegistry } from './registry.ts'
import { failure } from './result.ts'

interface ExecutePorts {
  readonly registry: ToolRegistry
  readonly ledger: CallLedger
  readonly connections: ConnectionResolver
  readonly now: () => Date
}

interface Claimed {
  /** Null for a read. */
  readonly attempt: number | null
  /** Not yet written; a claim wrote its own. */
  readonly record: DecisionRecord | null
}

/** Attempts of a read that declares `retry: 'safe'`, all inside its one timeout. */
const SAFE_ATTEMPTS = 3
const SAFE_BACKOFF_MS = 250

/** What the invoker saw: the answer, or the way it failed. */
type Outcome =
  | { readonly observed: 'ok'; readonly result: ToolResult }
  | {
      readonly observed: Exclude<Observed, 'ok'>
      readonly code: ErrorCode | null
      readonly message: string
      readonly error: unknown
    }

/** Connection, handler, boundary, and the ending of the claim. */
export async function executeCall(ports: ExecutePorts, call: AdmittedCall, claimed: Claimed): Promise<ToolResult> {
  const outcome = await observe(ports, call)
  const result = outcome.observed === 'ok' ? outcome.result : resultOf(outcome)
  const claim = claimed.attempt === null ? null : endingOfClaim(outcome.observed)
  const closed = await ports.ledger.close(call, {
    claim,
    result,
    status: outcome.observed === 'ok' ? 'ok' : 'error',
    code: result === null ? errorName(outcome) : (result.error?.code ?? null),
    decision: claimed.record,
    replayed: false,
    attempt: claimed.attempt,
  })
  if (result === null) throw outcome.observed === 'ok' ? new Error('unreachable') : outcome.error
  if (closed === 'stale') throw new ClaimInFlight(call.toolName, ports.now())
  return result
}

async function observe(ports: ExecutePorts, call: AdmittedCall): Promise<Outcome> {
  const ms = callBudgetMs(call.spec.timeoutS, call.invocation.deadline, ports.now())
  // Nothing outside saw this call, so unlike a timeout while the handler ran it can be forgotten.
  if (ms === 0) return failed('timeout_before', 'the run is past its deadline; the call was not made', { error: null })
  let reached = false
  let credential: Credential | null = null
  let answer: HandlerAnswer<unknown>
  try {
    answer = await withDeadline(ms, async (signal) => {
      credential = await resolveConnection(ports, call)
      signal.throwIfAborted()
      reached = true
      return runHandler(ports, call, { credential, idempotencyKey: downstreamKey(call), signal })
    })
  } catch (error) {
    return classify(error, reached)
  }
  return passBoundary(call, answer, credential)
}

/** A failure past the handler holds the claim: the effect happened, whatever went wrong with its answer. */
function passBoundary(call: AdmittedCall, answer: HandlerAnswer<unknown>, credential: Credential | null): Outcome {
  try {
    const valid = validateOutput(call.spec, answer.data)
    if (valid.kind === 'invalid')
      return failed('invalid_output', 'the tool answered off its own contract', { error: null })
    const secrets = credential === null ? [] : Object.values(credential.secrets)
    const { data, meta } = boundResult({ spec: call.spec, data: valid.data, meta: answer.meta ?? {}, secrets })
    return { observed: 'ok', result: { ok: true, data, error: null, meta, stop: null } }
  } catch (error) {
    return failed('raised_after_handler', '', { error })
  }
}

async function resolveConnection(ports: ExecutePorts, call: AdmittedCall): Promise<Credential | null> {
  if (call.spec.connection === null) return null
  const chosen = Object.hasOwn(call.args, 'connection_id') ? call.args['connection_id'] : null
  return ports.connections.resolve({
    organizationId: call.invocation.organizationId,
    provider: call.spec.connection,
    connectionId: typeof chosen === 'string' ? chosen : null,
  })
}

async function runHandler(
  ports: ExecutePorts,
  call: AdmittedCall,
  context: { credential: Credential | null; idempotencyKey: string | null; signal: AbortSignal },
): Promise<HandlerAnswer<unknown>> {
  const declaration = ports.registry.declaration(call.spec.name)
  if (declaration === undefined) throw new Error(`no handler is registered for ${call.spec.name}`)
  for (let tried = 1; ; tried += 1) {
    try {
      return await declaration.handler.execute(call.invocation, call.args, context)
    } catch (error) {
      const again = call.spec.retry === 'safe' && tried < SAFE_ATTEMPTS && error instanceof RetryableUpstreamError
      if (!again) throw error
      await pause(SAFE_BACKOFF_MS * tried, undefined, { signal: context.signal })
    }
  }
}

/** The same key over retries, restarts and attempts, in a form any receiver's header takes. */
function downstreamKey(call: AdmittedCall): string | null {
  return call.key === null ? null : `${call.spec.name}:${call.key}`
}

/** By exact class: a wrapper of a database fault must never read as a business failure. */
function classify(error: unknown, reached: boolean): Outcome {
  if (error instanceof DeadlineExceeded) {
    return reached
      ? failed('timeout_during', 'the call did not answer in time; nobody knows whether it took effect', { error })
      : failed('timeout_before', 'the call was not made in time', { error })
  }
  if (!(error instanceof Error)) return failed('raised', '', { error })
  switch (error.constructor) {
    case NotFoundError:
      return failed('business_failure', error.message, { error, named: 'not_found' })
    case ValidationError:
      return failed('business_failure', error.message, { error, named: 'invalid_input' })
    case ConflictError:
      return failed('business_failure', error.message, { error, named: 'conflict' })
    case RetryableUpstreamError:
      return failed('retryable_upstream', 'the service behind this tool failed for now; nothing happened', { error })
    case UpstreamUnavailableError:
      return failed('unavailable', 'the service behind this tool cannot do this', { error })
    case OutcomeUnknownError:
      return failed('outcome_unknown', 'the answer was lost; nobody knows whether the call took effect', { error })
    case ConnectionError:
      return failed('connection', error.message, { error, named: (error as ConnectionError).code })
    default:
      return failed('raised', '', { error })
  }
}

/** `named` is the code of a failure that has one of its own. */
function failed(
  observed: Exclude<Observed, 'ok'>,
  message: string,
  from: { error: unknown; named?: ErrorCode },
): Outcome {
  return { observed, code: codeOf(observed, from.named ?? null), message, error: from.error }
}

/** Null when the segment ends: the model reads nothing about a fault. */
function resultOf(outcome: Exclude<Outcome, { observed: 'ok' }>): ToolResult | null {
  return outcome.code === null ? null : failure({ code: outcome.code, message: outcome.message, stop: null })
}

function errorName(outcome: Outcome): string | null {
  if (outcome.observed === 'ok') return null
  return outcome.error instanceof Error ? outcome.error.name.slice(0, 64) : outcome.observed
}
