import { ceilingBeforeCall, ceilingBeforeTurn, type CeilingName, type RunUse } from '../decision/ceilings.ts'
import type { RunCeilings, ToolInvocation } from '../tools/invocation.ts'
import {
  ApprovalRequired,
  CancelRequested,
  ClaimInFlight,
  ReadHeld,
  type InvokeOptions,
  type ToolInvoker,
} from '../tools/invoker.ts'
import { own, type JsonValue } from '../tools/json.ts'
import type { ToolResult } from '../tools/models.ts'
import { failure } from '../tools/result.ts'
import type { Pause } from './run-store.ts'
import { stopOfError, stopOfResult } from './segment-stop.ts'
import type {
  AgentSession,
  CallResult,
  ModelUsage,
  Proposal,
  SegmentStop,
  SessionEnd,
  SessionInput,
  StopSlot,
} from './session.ts'

/** How one segment ended. */
export type SegmentOutcome =
  | { readonly kind: 'completed'; readonly text: string }
  | { readonly kind: 'needs_approval'; readonly expiresAt: Date }
  /** Another worker executes one of the calls; look again when its lease ends. */
  | { readonly kind: 'in_flight'; readonly until: Date }
  /** Somebody paused the lane: the run leaves its place, and goes on from here when the lane does. */
  | { readonly kind: 'lane_paused' }
  | { readonly kind: 'cancelled'; readonly reason: string | null }
  | { readonly kind: 'partial'; readonly reason: string }
  | { readonly kind: 'limit_reached'; readonly reason: CeilingName }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }

/** How the calls of a pause can end a segment. A lane is left between them and a turn, never by one of them. */
export type CallOutcome = Exclude<SegmentOutcome, { kind: 'lane_paused' }>

/** Everything the loop does beyond calling the invoker; implemented by the executor. Every verb may raise `SegmentLost`. */
export interface SegmentPorts {
  readonly invoker: ToolInvoker
  readonly invocation: ToolInvocation
  /** The frozen ceilings of the run; `use` is counted against them. */
  readonly ceilings: RunCeilings
  readonly authorizedBy: readonly string[]
  use(): RunUse
  cancelRequested(): Promise<{ readonly reason: string | null } | null>
  lanePaused(): Promise<boolean>
  /** Runs `work` as a child of the model turn that asked for it. */
  inTurn<T>(work: () => Promise<T>): Promise<T>
  turnStarted(): void
  /** Records the turn's spend and saves the session, together. */
  turnEnded(turn: EndedTurn): Promise<void>
  /** Saves the open proposals *before* any of them is looked at, so that a restart meets the same ones. */
  paused(proposals: readonly Proposal[]): Promise<Pause>
  /** Counts the answered calls of a pause. */
  answered(calls: number): void
  onText(delta: string): void
}

export interface EndedTurn {
  readonly usage: ModelUsage
  readonly text: string
  /** Whether the conversation went on; false once a read of this turn has stopped the segment. */
  readonly progressed: boolean
}

export interface SegmentStart {
  /** The open proposals of a resumed run. */
  readonly pause: Pause | null
  readonly input: SessionInput
  readonly stop: StopSlot
  /** Hangs up on the model. */
  readonly signal: AbortSignal
  /** Aborted, it ends the segment before its next turn or call: what is under way finishes. Raises its reason. */
  readonly leave?: AbortSignal
}

/**
 * The one loop of every framework: it resolves what a pause holds, continues the conversation, and returns when the
 * model is done or a call needs a person. The resume after an approval is this loop again with `authorizedBy` set: it
 * meets the same proposals, and the journal answers those that already ran.
 */
export async function drain(session: AgentSession, ports: SegmentPorts, start: SegmentStart): Promise<SegmentOutcome> {
  let { pause, input } = start
  for (;;) {
    if (pause !== null) {
      const answered = await answerPause(pause, ports, start.leave)
      if (answered.kind !== 'answered') return answered
      input = { kind: 'results', results: answered.results }
    }
    const end = await converse(session, ports, { ...start, input })
    if ('outcome' in end) return end.outcome
    // The stop is read before the framework's status: a write proposed beside a stopped read must not be drained.
    if (start.stop.current !== null) return outcomeOf(start.stop.current)
    if (end.kind === 'stopped') return outcomeOf(end.stop)
    if (end.kind === 'finished') return { kind: 'completed', text: end.text }
    pause = await ports.paused(end.proposals)
    if (await ports.lanePaused()) return { kind: 'lane_paused' }
  }
}

/** Pulls one stretch of the conversation. Between two turns nothing runs until the spend is recorded and the ceilings are read. */
async function converse(
  session: AgentSession,
  ports: SegmentPorts,
  stretch: Pick<SegmentStart, 'input' | 'signal' | 'stop' | 'leave'>,
): Promise<SessionEnd | { readonly outcome: SegmentOutcome }> {
  // Results are in no saved session before the turn that reads them: left there, the reads among them would be made again.
  let mayLeave = stretch.input.kind !== 'results'
  for await (const event of session.advance(stretch.input, stretch.signal)) {
    switch (event.type) {
      case 'turn-start': {
        stretch.leave?.throwIfAborted()
        const refused = await refuseTurn(ports)
        if (refused !== null) return { outcome: refused }
        if (mayLeave && (await ports.lanePaused())) return { outcome: { kind: 'lane_paused' } }
        mayLeave = true
        ports.turnStarted()
        break
      }
      case 'text-delta':
        ports.onText(event.text)
        break
      case 'turn-end':
        await ports.turnEnded({ usage: event.usage, text: event.text, progressed: stretch.stop.current === null })
        break
      case 'end':
        return event.end
    }
  }
  throw new Error('the session ended without saying how')
}

async function refuseTurn(ports: SegmentPorts): Promise<SegmentOutcome | null> {
  const cancelled = await ports.cancelRequested()
  if (cancelled !== null) return { kind: 'cancelled', reason: cancelled.reason }
  const ceiling = ceilingBeforeTurn(ports.ceilings, ports.use())
  return ceiling === null ? null : { kind: 'limit_reached', reason: ceiling }
}

export type PauseAnswer = { readonly kind: 'answered'; readonly results: readonly CallResult[] } | CallOutcome

/**
 * Decides the proposals of one pause, each on its own. The first that needs a person ends the execution; the ones behind
 * it are only foreseen, so that the person sees the whole turn at once.
 *
 * Reads come last, and only once nothing waits any more: no journal remembers them, so each pass of a pause would make
 * (and pay for) them again.
 */
export async function answerPause(pause: Pause, ports: SegmentPorts, leave?: AbortSignal): Promise<PauseAnswer> {
  const options = { authorizedBy: ports.authorizedBy, pauseId: pause.id }
  const results = new Map<Proposal, ToolResult>()
  const { writes, reads } = inOrder(pause.proposals, ports.invocation)
  let held: ApprovalRequired | null = null
  const steps = [
    ...writes.map((one) => ({ ...one, foresee: false })),
    ...(reads.length > 0 && pause.proposals.length > 1 ? reads.map((one) => ({ ...one, foresee: true })) : []),
    ...reads.map((one) => ({ ...one, foresee: false })),
  ]
  for (const { index, proposal, foresee } of steps) {
    leave?.throwIfAborted()
    // Before every call, not once a pause: with one call left, ten proposed sends are one send. Each proposal takes the
    // place its order gives it, so that the passes of one pause count it once.
    const ceiling = ceilingBeforeCall(ports.ceilings, placed(ports.use(), index))
    if (ceiling !== null && held === null) return { kind: 'limit_reached', reason: ceiling }
    if (ceiling !== null) break
    const call = await invokeProposal(proposal, ports, { options, foresee: foresee || held !== null })
    if (call.kind === 'ended') return call.outcome
    if (call.kind === 'held') held ??= call.approval
    if (call.kind === 'result') results.set(proposal, call.result)
  }
  if (held !== null) return { kind: 'needs_approval', expiresAt: held.expiresAt }
  ports.answered(pause.proposals.length)
  const answered = pause.proposals.flatMap((proposal): CallResult[] => {
    const result = results.get(proposal)
    return result === undefined ? [] : [{ proposal, result }]
  })
  return { kind: 'answered', results: answered }
}

interface Placed {
  readonly proposal: Proposal
  /** Its place in the turn. */
  readonly index: number
}

function inOrder(
  proposals: readonly Proposal[],
  { contracts }: ToolInvocation,
): { readonly writes: readonly Placed[]; readonly reads: readonly Placed[] } {
  const placed = proposals.map((proposal, index) => ({ proposal, index }))
  const isRead = ({ proposal }: Placed): boolean => own(contracts, proposal.toolName)?.sideEffects === 'read'
  return { writes: placed.filter((one) => !isRead(one)), reads: placed.filter(isRead) }
}

type ProposalAnswer =
  | { readonly kind: 'result'; readonly result: ToolResult }
  | { readonly kind: 'held'; readonly approval: ApprovalRequired }
  | { readonly kind: 'foreseen' }
  | { readonly kind: 'ended'; readonly outcome: CallOutcome }

async function invokeProposal(
  proposal: Proposal,
  ports: SegmentPorts,
  how: { readonly options: InvokeOptions; readonly foresee: boolean },
): Promise<ProposalAnswer> {
  try {
    if (how.foresee) {
      const approval = await ports.inTurn(() => ports.invoker.foresee(proposal, ports.invocation, how.options))
      return approval === null ? { kind: 'foreseen' } : { kind: 'held', approval }
    }
    const result = await ports.inTurn(() => ports.invoker.invoke(proposal, ports.invocation, how.options))
    const stop = stopOfResult(result)
    return stop === null ? { kind: 'result', result } : { kind: 'ended', outcome: outcomeOf(stop) }
  } catch (error) {
    if (error instanceof ApprovalRequired) return { kind: 'held', approval: error }
    if (error instanceof CancelRequested) return { kind: 'ended', outcome: { kind: 'cancelled', reason: error.reason } }
    if (error instanceof ClaimInFlight)
      return { kind: 'ended', outcome: { kind: 'in_flight', until: error.leaseUntil } }
    if (error instanceof ReadHeld) return { kind: 'ended', outcome: outcomeOf(stopOfError(error)) }
    throw error
  }
}

/** A read inside the framework's loop. Never raises: what would is recorded as the segment's stop. */
export async function callRead(
  toolName: string,
  args: JsonValue,
  ports: SegmentPorts & { readonly stop: StopSlot },
): Promise<ToolResult> {
  const stopped = failure({ code: 'unavailable', message: 'the run has stopped', stop: null })
  if (ports.stop.current !== null) return stopped
  const ceiling = ceilingBeforeCall(ports.ceilings, ports.use())
  if (ceiling !== null) {
    ports.stop.record({ kind: 'ceiling', reason: ceiling })
    return stopped
  }
  ports.answered(1)
  try {
    const result = await ports.inTurn(() => ports.invoker.invoke({ toolName, args }, ports.invocation))
    const stop = stopOfResult(result)
    if (stop !== null) ports.stop.record(stop)
    return result
  } catch (error) {
    ports.stop.record(stopOfError(error))
    return stopped
  }
}

function placed(use: RunUse, index: number): RunUse {
  return { ...use, toolCalls: use.toolCalls + index }
}

const CEILINGS: readonly string[] = ['max_turns', 'max_tool_calls', 'max_duration', 'max_cost'] satisfies CeilingName[]

/** @throws the stored exception of a platform fault, so that the engine decides about a retry. */
export function outcomeOf(stop: SegmentStop): CallOutcome {
  switch (stop.kind) {
    case 'ceiling':
      return isCeiling(stop.reason)
        ? { kind: 'limit_reached', reason: stop.reason }
        : { kind: 'partial', reason: stop.reason }
    case 'cancelled':
      return { kind: 'cancelled', reason: stop.reason }
    case 'failed':
      if (stop.error !== null) throw stop.error
      return { kind: 'failed', code: stop.code, message: stop.message }
  }
}

function isCeiling(reason: string): reason is CeilingName {
  return CEILINGS.includes(reason)
}
