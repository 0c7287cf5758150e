import type {
  AdmittedCall,
  AmbientSpans,
  CallEnding,
  CallLedger,
  DecisionRecord,
  SpanSubject,
  UsageWriter,
} from '../tools/invoker.ts'
import type { ObservedCall, ObservedDecision, Observer } from './observer.ts'
import type { Tell } from './telling.ts'

/** A ledger that tells what it wrote, once it has written it. */
export function observedLedger(ledger: CallLedger, tell: Tell): CallLedger {
  // A claim writes its decision long before the call ends; the end is told with it.
  const decisions = new WeakMap<SpanSubject, ObservedDecision>()
  const decided = (call: SpanSubject, record: DecisionRecord): void => {
    const decision = { effect: record.outcome, stage: record.stage, rule: record.policy?.ruleName ?? null }
    decisions.set(call, decision)
    tell({ kind: 'decision', ...callOf(call), ...decision })
  }
  return {
    open: (call, needs) => ledger.open(call, needs),
    async file(call, hold) {
      const filed = await ledger.file(call, hold)
      if (filed.kind !== 'filed') return filed
      decided(call, hold.decision)
      tell({ kind: 'question_filed', ...callOf(call), question: hold.kind })
      tell({ kind: 'call_ended', ...callOf(call), ...HELD, decision: decisions.get(call) ?? null, ...timesOf(call) })
      return filed
    },
    async claim(call, decision, expected) {
      const claim = await ledger.claim(call, decision, expected)
      if (claim.kind === 'claimed') decided(call, decision)
      return claim
    },
    count: (call, counts) => ledger.count(call, counts),
    async close(call, ending) {
      const closed = await ledger.close(call, ending)
      if (ending.decision !== null) decided(call, ending.decision)
      const claim = closed === 'stale' ? closed : ending.claim
      const told = { ...endOf(ending), claim, decision: decisions.get(call) ?? null }
      tell({ kind: 'call_ended', ...callOf(call), ...told, ...timesOf(call) })
      return closed
    },
    toolEnabled: (organizationId, tool) => ledger.toolEnabled(organizationId, tool),
    async flush() {
      try {
        await ledger.flush()
      } catch (error) {
        tell({ kind: 'dropped', what: 'read_spans' })
        throw error
      }
    },
  }
}

const HELD = { outcome: 'held', code: null, attempt: null, replayed: false, untrusted: false, claim: null } as const

function endOf({ status, code, attempt, replayed, result }: CallEnding) {
  return { outcome: status, code, attempt, replayed, untrusted: result?.meta.untrusted === true }
}

function callOf(call: SpanSubject | AdmittedCall): ObservedCall {
  const { organizationId, runId, principal } = call.invocation
  return {
    organizationId,
    runId,
    rootRunId: call.rootRunId ?? runId,
    agent: principal.agent,
    spanId: call.span.id,
    parentId: call.span.parentId,
    admitted: 'spec' in call,
    tool: call.toolName,
  }
}

function timesOf({ span }: SpanSubject): { readonly startedAt: Date; readonly ms: number } {
  return { startedAt: span.startedAt, ms: Math.max(0, Date.now() - span.startedAt.getTime()) }
}

export function observedUsage(usage: UsageWriter, tell: Tell): UsageWriter {
  return {
    async write(row) {
      await usage.write(row)
      tell({ kind: 'spent', provider: row.usage.provider, costCents: row.usage.costCents })
    },
  }
}

/**
 * Lets observers stand around each call. A scope inside one of its own run is a call; the others, entered by the runtime,
 * stand for the turn that asked for it.
 */
export function observedAmbient(ambient: AmbientSpans, observers: readonly Observer[]): AmbientSpans {
  const around = observers.filter((observer) => observer.insideCall !== undefined)
  if (around.length === 0) return ambient
  return {
    current: () => ambient.current(),
    enter(span, work) {
      const outer = ambient.current()
      if (outer === null || outer.runId !== span.runId) return ambient.enter(span, work)
      const { runId, rootRunId, spanId } = span
      const scope = { runId, rootRunId, spanId, parentId: outer.spanId }
      const inner = around.reduce((rest, observer) => () => observer.insideCall?.(scope, rest) ?? rest(), work)
      return ambient.enter(span, inner)
    },
  }
}
