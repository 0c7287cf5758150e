import type { z } from '@hono/zod-openapi'
import type { Approval } from '../approvals/approval-store.ts'
import { mayReadQuestion } from '../decision/visibility.ts'
import type { RunRow } from '../runs/run-store.ts'
import type { SpanNode } from '../spans/span-store.ts'
import type { Actor } from '../tools/invocation.ts'
import type { ApprovalSchema, RunSchema, RunSummarySchema, SpanSchema } from './schemas.ts'

export type ApprovalJson = z.input<typeof ApprovalSchema>
export type RunSummaryJson = z.input<typeof RunSummarySchema>
export type RunJson = z.input<typeof RunSchema>
export type SpanJson = z.input<typeof SpanSchema>

/** Who reads. */
export interface Reader {
  readonly actor: Actor
  readonly roles: readonly string[]
}

function reads({ actor, roles }: Reader, { approvers, principal }: Approval): boolean {
  return mayReadQuestion({ id: actor.id, roles }, { approvers, startedById: principal.startedBy.id })
}

/** Rows as the API shows them. Every field is named: a column added to a row must not appear outside by itself. */
export function approvalJson(approval: Approval, reader: Reader): ApprovalJson {
  const hidden = !reads(reader, approval)
  return {
    id: approval.id,
    state: approval.state,
    kind: approval.kind,
    tool: approval.tool,
    toolVersion: approval.toolVersion,
    arguments: hidden ? null : approval.arguments,
    argumentsHash: approval.argumentsHash,
    preview: hidden ? null : approval.preview,
    rule: approval.rule,
    facts: hidden ? null : approval.facts,
    hidden,
    runId: approval.runId,
    spanId: approval.spanId,
    requestedAt: approval.requestedAt.toISOString(),
    expiresAt: approval.expiresAt.toISOString(),
    decidedAt: instant(approval.decidedAt),
    decidedBy: approval.decidedBy,
    note: approval.note,
    principal: { agent: approval.principal.agent, startedBy: approval.principal.startedBy },
  }
}

export function runSummaryJson(run: RunRow): RunSummaryJson {
  return {
    id: run.id,
    definition: run.definition,
    status: run.status,
    lane: run.lane,
    heldAt: instant(run.heldAt),
    heldReason: run.heldReason,
    reason: run.reason,
    message: run.message,
    source: run.source,
    retryOf: run.retryOf,
    model: run.snapshot.model,
    turns: run.turns,
    toolCalls: run.toolCalls,
    startedBy: run.snapshot.principal.startedBy,
    createdAt: run.createdAt.toISOString(),
    startedAt: instant(run.startedAt),
    endedAt: instant(run.endedAt),
    deadline: run.deadline.toISOString(),
    wakeAt: instant(run.wakeAt),
  }
}

export function runJson(
  run: RunRow,
  totals: { readonly costCents: number; readonly pendingApprovals: number },
): RunJson {
  return {
    ...runSummaryJson(run),
    input: run.input,
    output: run.output,
    ceilings: run.snapshot.ceilings,
    tools: Object.keys(run.snapshot.contracts),
    ...totals,
  }
}

/** A call that was asked about hides what it was about from whoever may not read the question. */
export function spanJson(span: SpanNode, approval: Approval | null, reader: Reader): SpanJson {
  const hidden = approval !== null && !reads(reader, approval)
  return {
    id: span.id,
    runId: span.runId,
    parentId: span.parentId,
    kind: span.kind,
    name: span.name,
    status: span.status,
    code: span.code,
    startedAt: span.startedAt.toISOString(),
    endedAt: instant(span.endedAt),
    attributes: span.attributes,
    input: hidden ? null : span.input,
    output: hidden ? null : span.output,
    hidden,
    decision: span.decision === null ? null : { ...span.decision, ...(hidden ? { facts: {} } : {}) },
    approval: approval === null ? null : answerJson(approval),
  }
}

function answerJson({ id, state, decidedAt, decidedBy, note }: Approval): SpanJson['approval'] {
  return { id, state, decidedAt: instant(decidedAt), decidedBy, note }
}

function instant(date: Date | null): string | null {
  return date?.toISOString() ?? null
}
