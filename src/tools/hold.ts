import { refusedByPerson, type Refusal, type Verdict } from '../decision/path.ts'
import { callBudgetMs, withDeadline } from './deadline.ts'
import { accountOf } from './account.ts'
import {
  ApprovalRequired,
  ReadHeld,
  type AdmittedCall,
  type CallLedger,
  type ConnectionResolver,
  type Logger,
} from './invoker.ts'
import { takesClaim } from './models.ts'
import type { ToolRegistry } from './registry.ts'

interface HoldPorts {
  readonly ledger: CallLedger
  readonly registry: ToolRegistry
  readonly connections: Pick<ConnectionResolver, 'choose'>
  readonly logger: Logger
  readonly now: () => Date
  readonly newId: () => string
}

interface Holding {
  readonly verdict: Extract<Verdict, { kind: 'ask' | 'pending' }>
  readonly pauseId: string | null
}

export type Held =
  | { readonly kind: 'held'; readonly error: Error }
  | { readonly kind: 'rejected'; readonly refusal: Refusal }

/** Bytes of a stored preview. */
const PREVIEW_BYTES = 512

/**
 * Files the question a person has to answer. The span closes ok with the approval's id: a pause is not a failure. A
 * rejection this very call already received answers instead of a second card.
 */
export async function holdCall(ports: HoldPorts, call: AdmittedCall, holding: Holding): Promise<Held> {
  const { verdict } = holding
  if (!takesClaim(call.spec) && holding.pauseId === null) {
    const error = new ReadHeld(call.toolName)
    const decision = verdict.kind === 'ask' ? verdict.record : null
    await ports.ledger.close(call, {
      claim: null,
      result: null,
      status: 'error',
      code: 'read_tool_needs_approval',
      decision,
      replayed: false,
      attempt: null,
    })
    return { kind: 'held', error }
  }
  // The span that filed the question carries it; meeting the same call again on a later pass is no new call.
  if (verdict.kind === 'pending') {
    return { kind: 'held', error: new ApprovalRequired(verdict.approvalId, verdict.expiresAt) }
  }
  const preview =
    verdict.approval === 'outcome' ? outcomePreview(call, verdict.claimedAt) : await renderPreview(ports, call)
  const outcome = await ports.ledger.file(call, {
    approvalId: ports.newId(),
    kind: verdict.approval,
    preview,
    decision: verdict.record,
    ttlS: verdict.ttlS,
    pauseId: holding.pauseId,
    connectionId: await accountOf(ports.connections, call, null),
  })
  if (outcome.kind === 'rejected')
    return { kind: 'rejected', refusal: refusedByPerson({ state: 'rejected', note: outcome.note }) }
  return { kind: 'held', error: new ApprovalRequired(outcome.approvalId, outcome.expiresAt) }
}

/**
 * The line a person reads before deciding, or null: a preview that fails, takes too long or answers anything but one
 * line of at most 512 bytes costs the line and never the approval.
 */
export async function renderPreview(ports: HoldPorts, call: AdmittedCall): Promise<string | null> {
  if (!call.spec.approvalPreview) return null
  const preview = ports.registry.declaration(call.spec.name)?.handler.preview
  if (preview === undefined) return null
  try {
    const ms = callBudgetMs(call.spec.timeoutS, call.invocation.deadline, ports.now())
    const line: unknown = await withDeadline(ms, (signal) => preview(call.invocation, call.args, signal))
    const normalized = previewLine(line)
    if (normalized === null)
      ports.logger.warn('a preview was not one line of at most 512 bytes', { tool: call.toolName })
    return normalized
  } catch (error) {
    ports.logger.warn('a preview failed; the approval shows the arguments', { tool: call.toolName, error })
    return null
  }
}

/** One non-empty line: whitespace runs, line breaks among them, become one space. Null when it is no such line. */
export function previewLine(value: unknown): string | null {
  if (typeof value !== 'string') return null
  const line = value.replace(/\s+/gu, ' ').trim()
  return line === '' || Buffer.byteLength(line, 'utf8') > PREVIEW_BYTES ? null : line
}

function outcomePreview(call: AdmittedCall, claimedAt: Date | null): string {
  const when = claimedAt === null ? 'earlier' : `at ${claimedAt.toISOString()}`
  return `${call.toolName} was started ${when} and no answer came. Did it arrive, or should it be sent again?`
}
