import { setTimeout as pause } from 'node:timers/promises'
import { codeOf, endingOfClaim, type Observed } from '../decision/claim-ending.ts'
import { connectionRequest } from './account.ts'
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
  type UsageWriter,
} from './invoker.ts'
import { meterOf } from './call-meter.ts'
import type { Credential, HandlerContext } from './invocation.ts'
import { takesClaim, type HandlerAnswer, type ToolResult } from './models.ts'
import { validateOutput } from './output-validation.ts'
import type { ToolRegistry } from './registry.ts'
import { redactError } from './redact-error.ts'
import { redactText } from './redact.ts'
import { failure, success } from './result.ts'

interface ExecutePorts {
  readonly registry: ToolRegistry
  readonly ledger: CallLedger
  readonly connections: ConnectionResolver
  readonly usage: UsageWriter
  readonly now: () => Date
  readonly newId: () => string
}

interface Claimed {
  /** Null for a read. */
  readonly attempt: number | null
  /** Not yet written; a claim wrote its own. */
  readonly record: DecisionRecord | null
  /** The account an approval was asked for; the call acts with this one and no other. */
  readonly connectionId: string | null
}

/** Attempts of a read that declares `retry: 'safe'`, all inside its one timeout. */
const SAFE_ATTEMPTS = 3
const SAFE_BACKOFF_MS = 250

/** What the invoker saw. */
interface Outcome {
  readonly observed: Observed
  /** Null when the segment ends: the model reads nothing about a fault. */
  readonly result: ToolResult | null
  readonly error: unknown
}

/** Connection, handler, boundary, and the ending of the claim. */
export async function executeCall(ports: ExecutePorts, call: AdmittedCall, claimed: Claimed): Promise<ToolResult> {
  const { observed, result, error } = await observe(ports, call, claimed)
  const closed = await ports.ledger.close(call, {
    claim: claimed.attempt === null ? null : endingOfClaim(observed),
    result,
    status: observed === 'ok' ? 'ok' : 'error',
    code: result === null ? faultName(error) : (result.error?.code ?? null),
    decision: claimed.record,
    replayed: false,
    attempt: claimed.attempt,
  })
  if (result === null) throw error
  if (closed === 'stale') throw new ClaimInFlight(call.toolName, ports.now())
  return result
}

async function observe(ports: ExecutePorts, call: AdmittedCall, claimed: Claimed): Promise<Outcome> {
  const ms = callBudgetMs(call.spec.timeoutS, call.invocation.deadline, ports.now())
  // Nothing outside saw this call, so unlike a timeout while the handler ran it can be forgotten.
  if (ms === 0) return failed('timeout_before', { message: 'the run is past its deadline; the call was not made' })
  const reached: Reached = { handler: false, credential: null }
  const settlesLater = ports.registry.declaration(call.spec.name)?.settles === 'later'
  const metered = meterOf(call, { writer: ports.usage, newId: ports.newId, settlesLater })
  let answer: HandlerAnswer<unknown>
  try {
    answer = await withDeadline(ms, async (signal) => {
      reached.credential = await resolveConnection(ports, call, claimed)
      signal.throwIfAborted()
      reached.handler = true
      const { credential } = reached
      return runHandler(ports, call, { credential, idempotencyKey: downstreamKey(call), signal, meter: metered.meter })
    })
  } catch (error) {
    await reportRefusal(ports, call, { error, credential: reached.credential })
    return withoutSecrets(classify(error, call, reached), reached)
  }
  const crossing = { usageId: metered.usageId(), secrets: secretsOf(reached), settlesLater }
  return withoutSecrets(passBoundary(call, answer, crossing), reached)
}

/** How far a call got before it failed. */
interface Reached {
  handler: boolean
  credential: Credential | null
}

/** What is raised goes to logs and reports, and a vendor's SDK may have put the key into it. */
function withoutSecrets(outcome: Outcome, reached: Reached): Outcome {
  return outcome.result === null ? { ...outcome, error: redactError(outcome.error, secretsOf(reached)) } : outcome
}

function secretsOf({ credential }: Reached): readonly string[] {
  return credential === null ? [] : Object.values(credential.secrets)
}

interface Crossing {
  /** The row the call wrote. */
  readonly usageId: string | null
  readonly secrets: readonly string[]
  readonly settlesLater: boolean
}

/** A failure past the handler holds the claim: the effect happened, whatever went wrong with its answer. */
function passBoundary(call: AdmittedCall, answer: HandlerAnswer<unknown>, crossing: Crossing): Outcome {
  const { usageId, secrets, settlesLater } = crossing
  try {
    // What the run cannot count, it must not be given; a submitted job is counted when it has ended.
    if (call.spec.metered && usageId === null && !settlesLater)
      throw new Error(`${call.toolName} answered and recorded no usage`)
    const valid = validateOutput(call.spec, answer.data)
    if (valid.kind === 'invalid') return failed('invalid_output', { message: 'the tool answered off its own contract' })
    // The row's id comes from the meter: a handler cannot name somebody else's.
    const { usageId: _, ...said } = answer.meta ?? {}
    const own = usageId === null ? said : { ...said, usageId }
    const { data, meta } = boundResult({ spec: call.spec, data: valid.data, meta: own, secrets })
    return { observed: 'ok', result: success(data, meta), error: null }
  } catch (error) {
    return failed('raised_after_handler', { error })
  }
}

async function resolveConnection(
  ports: ExecutePorts,
  call: AdmittedCall,
  { connectionId }: Claimed,
): Promise<Credential | null> {
  const request = connectionRequest(call, connectionId)
  return request === null ? null : ports.connections.resolve(request)
}

/**
 * A handler that says the account is no longer accepted is believed: the next call is told at once, and a person is
 * asked to connect it again.
 */
async function reportRefusal(
  ports: ExecutePorts,
  call: AdmittedCall,
  { error, credential }: { readonly error: unknown; readonly credential: Credential | null },
): Promise<void> {
  if (credential === null || !(error instanceof ConnectionError) || error.code !== 'connection_expired') return
  const { organizationId } = call.invocation
  const { connectionId } = credential
  await ports.connections.refused({ organizationId, connectionId, reason: `refused at ${call.toolName}` })
}

async function runHandler(
  ports: ExecutePorts,
  call: AdmittedCall,
  context: HandlerContext,
): Promise<HandlerAnswer<unknown>> {
  const declaration = ports.registry.declaration(call.spec.name)
  if (declaration === undefined) throw new Error(`no handler is registered for ${call.spec.name}`)
  for (let tried = 1; ; tried += 1) {
    try {
      // The call's own arguments cannot be written to; a handler may do with its copy what it likes.
      return await declaration.handler.execute(call.invocation, structuredClone(call.args), context)
    } catch (error) {
      const again = call.spec.retry === 'safe' && tried < SAFE_ATTEMPTS && error instanceof RetryableUpstreamError
      if (!again) throw error
      await pause(SAFE_BACKOFF_MS * tried, undefined, { signal: context.signal })
    }
  }
}

/** The same key over retries, restarts and attempts, in a form any receiver's header takes. */
function downstreamKey(call: AdmittedCall): string | null {
  return takesClaim(call.spec) ? `${call.spec.name}:${call.key}` : null
}

/** By exact class: a wrapper of a database fault must never read as a business failure. */
function classify(error: unknown, call: AdmittedCall, reached: Reached): Outcome {
  if (error instanceof DeadlineExceeded) {
    return reached.handler
      ? failed('timeout_during', {
          error,
          message: 'the call did not answer in time; nobody knows whether it took effect',
        })
      : failed('timeout_before', { error, message: 'the call was not made in time' })
  }
  if (!(error instanceof Error)) return failed('raised', { error })
  // A domain's own words reach the model, without the credentials of the call and labelled where they came from outside.
  const said = {
    error,
    message: redactText(error.message, secretsOf(reached)),
    untrusted: call.spec.kind !== 'internal',
  }
  switch (error.constructor) {
    case NotFoundError:
      return failed('business_failure', { ...said, named: 'not_found' })
    case ValidationError:
      return failed('business_failure', { ...said, named: 'invalid_input' })
    case ConflictError:
      return failed('business_failure', { ...said, named: 'conflict' })
    case RetryableUpstreamError:
      return failed('retryable_upstream', {
        error,
        message: 'the service behind this tool failed for now; nothing happened',
      })
    case UpstreamUnavailableError:
      return failed('unavailable', { error, message: 'the service behind this tool cannot do this' })
    case OutcomeUnknownError:
      return failed('outcome_unknown', {
        error,
        message: 'the answer was lost; nobody knows whether the call took effect',
      })
    case ConnectionError:
      return failed('connection', { ...said, named: (error as ConnectionError).code, untrusted: false })
    default:
      return failed('raised', { error })
  }
}

interface Failed {
  readonly message?: string
  readonly error?: unknown
  /** The code of a failure that has one of its own. */
  readonly named?: ErrorCode
  readonly untrusted?: boolean
}

function failed(
  observed: Exclude<Observed, 'ok'>,
  { message = '', error = null, named, untrusted = false }: Failed,
): Outcome {
  const code = codeOf(observed, named ?? null)
  return { observed, error, result: code === null ? null : failure({ code, message, stop: null, untrusted }) }
}

/** For the tree: the class of what was raised, never its text. */
function faultName(error: unknown): string {
  return error instanceof Error ? error.name.slice(0, 64) : 'raised'
}
