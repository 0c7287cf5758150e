import type { AdmittedCall, CallEnding, DecisionRecord, Hold, SpanSubject } from '../tools/invoker.ts'
import type { JsonValue } from '../tools/json.ts'

/* What the statements of the ledger are given, in the order of their parameters. */

export type SqlValue = string | number | boolean | null

export function scopeOf(call: AdmittedCall): string {
  return `tool.${call.spec.name}`
}

/** What limits and taints are kept by. Outside a run scope a run is its own tree. */
export function rootOf(call: SpanSubject): string {
  return call.rootRunId ?? call.invocation.runId
}

/** The step of most calls, which is not written down. */
const USUAL_STEP = 'agent'

/** $1 … $11 of every statement that writes a span. */
export function spanValues(
  call: SpanSubject,
  closing: { readonly status: string; readonly code: string | null; readonly attributes: Record<string, JsonValue> },
): SqlValue[] {
  const { organizationId, runId, stepPath } = call.invocation
  return [
    call.span.id,
    organizationId,
    runId,
    call.rootRunId,
    call.span.parentId,
    call.toolName,
    closing.status,
    closing.code,
    call.span.startedAt.toISOString(),
    JSON.stringify(stepPath === USUAL_STEP ? closing.attributes : { ...closing.attributes, stepPath }),
    JSON.stringify(call.span.input),
  ]
}

/** Null decision columns: nothing is written. */
export const NO_DECISION: readonly SqlValue[] = Array.from({ length: 10 }, () => null)

export function decisionValues(call: AdmittedCall, decision: DecisionRecord, id: string): SqlValue[] {
  return [
    id,
    call.toolName,
    call.argsHash,
    decision.stage,
    decision.outcome,
    decision.policy?.ruleId ?? null,
    decision.policy?.ruleName ?? null,
    decision.message ?? decision.policy?.message ?? null,
    JSON.stringify({ facts: decision.policy?.facts ?? {}, shadow: decision.policy?.shadow ?? [] }),
    decision.approvalId,
  ]
}

/** What a question is filed with, after span and decision. */
export function holdValues(call: AdmittedCall, hold: Hold): SqlValue[] {
  return [
    hold.approvalId,
    call.key,
    hold.pauseId,
    hold.kind,
    JSON.stringify(call.args),
    hold.preview,
    JSON.stringify(hold.decision.policy?.approvers ?? []),
    JSON.stringify(call.invocation.principal),
    hold.ttlS,
    call.spec.version,
    hold.connectionId,
  ]
}

/** What a model was answered; null when it read nothing. */
export function outputOf({ result }: CallEnding): string | null {
  if (result === null) return null
  const { ok, data, error, meta } = result
  return JSON.stringify({ ok, data, error, meta })
}

export function endingAttributes(call: SpanSubject | AdmittedCall, ending: CallEnding): Record<string, JsonValue> {
  return {
    ...('spec' in call ? { toolVersion: call.spec.version } : {}),
    ...(ending.replayed ? { replayed: true } : {}),
    ...(ending.attempt === null ? {} : { attempt: ending.attempt }),
    ...(ending.result?.meta.usageId === undefined ? {} : { usageId: ending.result.meta.usageId }),
    ...(ending.result?.meta.untrusted === true ? { untrusted: true } : {}),
  }
}
