import { randomUUID } from 'node:crypto'
import type { Approval, ApprovalFilter, ApprovalStore, Decided, LockedApproval } from '../approvals/approval-store.ts'
import { covers } from '../decision/coverage.ts'
import { readClaim, takeoverOf, type JournalRow } from '../decision/journal.ts'
import { NOTHING_COUNTED } from '../decision/limits.ts'
import { argumentsHash } from '../tools/canonical.ts'
import type {
  AdmittedCall,
  CallEnding,
  CallLedger,
  CallState,
  CloseOutcome,
  SpanSubject,
  StoredResponse,
} from '../tools/invoker.ts'
import type { LedgerScene } from './ledger-suite.ts'

interface Claim {
  row: JournalRow
  owner: string
  /** Taken over from a worker that may have had the effect. */
  inherited: boolean
  response: StoredResponse | null
}

interface Question {
  approval: Approval
  readonly key: string
}

const DEFAULT_PAGE = 50

/**
 * A journal and its approvals in memory: the third store that plays the histories of the ledger suite, and the
 * shortest one to read when writing a fourth. One organization, one run; nothing survives the process.
 */
export function memoryScene(): LedgerScene {
  const store = new MemoryStore()
  return {
    ledger: store,
    approvals: store,
    organizationId: randomUUID(),
    runId: randomUUID(),
    agent: 'memory',
    newId: () => randomUUID(),
    setGranted: async (tool, granted) => void (granted ? store.withdrawn.delete(tool) : store.withdrawn.add(tool)),
    setEnabled: async (tool, enabled) => void (enabled ? store.disabled.delete(tool) : store.disabled.add(tool)),
    changeRules: async () => void (store.rulesVersion += 1),
    cancel: async () => void (store.cancelled = true),
    expireLeases: async () => store.expireLeases(),
    makeDue: async (id) => store.makeDue(id),
  }
}

class MemoryStore implements CallLedger, ApprovalStore {
  readonly withdrawn = new Set<string>()
  readonly disabled = new Set<string>()
  rulesVersion = 0
  cancelled = false
  readonly #claims = new Map<string, Claim>()
  readonly #questions: Question[] = []

  expireLeases(): void {
    for (const claim of this.#claims.values()) claim.row = { ...claim.row, leaseUntil: new Date(0) }
  }

  makeDue(id: string): void {
    const question = this.#questions.find(({ approval }) => approval.id === id)
    if (question !== undefined) question.approval = { ...question.approval, expiresAt: new Date(0) }
  }

  async open(call: AdmittedCall, needs: { readonly authorizedBy: readonly string[] }): Promise<CallState> {
    const claim = this.#claims.get(nameOf(call))
    const handed = this.#questions.findLast(
      ({ approval }) =>
        approval.kind === 'action' &&
        needs.authorizedBy.includes(approval.id) &&
        covers(subjectOf(approval), subjectOfCall(call)),
    )?.approval
    return {
      now: new Date(),
      journal: claim?.row ?? null,
      response: claim?.response ?? null,
      toolEnabled: !this.disabled.has(call.spec.name),
      granted: !this.withdrawn.has(call.spec.name),
      rulesVersion: this.rulesVersion,
      cancelled: this.cancelled ? { reason: null } : null,
      approval: handed === undefined ? null : { ...handed, ...subjectOf(handed) },
      spentCents: null,
      taintSources: [],
      limits: NOTHING_COUNTED,
    }
  }

  async file(call: AdmittedCall, hold: Parameters<CallLedger['file']>[1]): ReturnType<CallLedger['file']> {
    const refusal = this.#questions.findLast(
      ({ approval }) =>
        approval.kind === 'action' && approval.state === 'rejected' && covers(subjectOf(approval), subjectOfCall(call)),
    )
    if (hold.kind === 'action' && refusal !== undefined) return { kind: 'rejected', note: refusal.approval.note }
    const open = this.#questions.find(({ approval, key }) => approval.state === 'pending' && key === call.key)?.approval
    if (open !== undefined) {
      return {
        kind: 'pending',
        approvalId: open.id,
        expiresAt: open.expiresAt,
        sameCall: covers(subjectOf(open), subjectOfCall(call)),
      }
    }
    const expiresAt = new Date(Date.now() + hold.ttlS * 1000)
    this.#questions.push({ key: call.key, approval: approvalOf(call, hold, expiresAt) })
    return { kind: 'filed', approvalId: hold.approvalId, expiresAt }
  }

  async claim(
    call: AdmittedCall,
    _decision: unknown,
    expected: { readonly rulesVersion: number; readonly leaseS: number },
  ): ReturnType<CallLedger['claim']> {
    const now = new Date()
    const claim = this.#claims.get(nameOf(call))
    const unmoved =
      expected.rulesVersion === this.rulesVersion &&
      !this.cancelled &&
      !this.disabled.has(call.spec.name) &&
      !this.withdrawn.has(call.spec.name)
    const question = { argsHash: call.argsHash, now, takeoverS: takeoverOf(call.spec) }
    const reading = readClaim(claim?.row ?? null, question, unmoved)
    switch (reading) {
      case 'claimed': {
        const row: JournalRow = {
          status: 'processing',
          requestHash: call.argsHash,
          attempt: (claim?.row.attempt ?? 0) + 1,
          leaseUntil: new Date(now.getTime() + expected.leaseS * 1000),
          firstClaimedAt: claim?.row.status === 'processing' ? claim.row.firstClaimedAt : now,
          claimedAt: now,
        }
        const inherited = claim?.row.status === 'processing'
        this.#claims.set(nameOf(call), { row, owner: call.span.id, inherited, response: null })
        return { kind: 'claimed', attempt: row.attempt }
      }
      case 'completed':
        if (claim?.response == null) throw new Error('a completed claim holds no response')
        return { kind: 'completed', response: claim.response }
      case 'processing':
        return { kind: 'processing', leaseUntil: claim?.row.leaseUntil ?? now }
      case 'unknown':
        if (claim === undefined) throw new Error('an unknown outcome has no claim')
        return { kind: 'unknown', journal: claim.row }
      case 'conflict':
      case 'moved':
        return { kind: reading }
    }
  }

  async close(call: SpanSubject | AdmittedCall, ending: CallEnding): Promise<CloseOutcome> {
    if (ending.claim === null || !('spec' in call)) return 'owned'
    const claim = this.#claims.get(nameOf(call))
    if (claim?.owner !== call.span.id || claim.row.status !== 'processing') return 'stale'
    if (ending.claim === 'complete' && ending.result !== null) this.#complete(claim, ending.result)
    if (ending.claim === 'release' && claim.inherited) claim.row = { ...claim.row, leaseUntil: new Date(0) }
    else if (ending.claim === 'release') this.#claims.delete(nameOf(call))
    return 'owned'
  }

  async count(): Promise<'counted'> {
    return 'counted'
  }

  async toolEnabled(_organizationId: string, tool: string): Promise<boolean> {
    return !this.disabled.has(tool)
  }

  async flush(): Promise<void> {
    // Nothing waits in a batch.
  }

  async get(_organizationId: string, id: string): Promise<Approval | null> {
    return this.#questions.find(({ approval }) => approval.id === id)?.approval ?? null
  }

  async list(_organizationId: string, filter: Partial<ApprovalFilter>) {
    const items = this.#questions
      .map(({ approval }) => approval)
      .filter(({ state }) => filter.state === undefined || state === filter.state)
    return { items: items.slice(0, filter.limit ?? DEFAULT_PAGE), nextCursor: null }
  }

  async answer<T>(
    _organizationId: string,
    id: string,
    decide: Parameters<ApprovalStore['answer']>[2],
  ): Promise<T | null> {
    const question = this.#questions.find(({ approval }) => approval.id === id)
    if (question === undefined) return null
    const { write, value } = decide(this.#locked(question.approval))
    if (write !== null) this.#decide(question, write)
    return value as T
  }

  async expireDue(limit: number, claim: NonNullable<Decided['claim']>): Promise<readonly string[]> {
    const due = this.#questions
      .filter(({ approval }) => approval.state === 'pending' && approval.expiresAt <= new Date())
      .slice(0, limit)
    for (const question of due) {
      const answered = question.approval.kind === 'outcome' ? claim : null
      this.#decide(question, { state: 'expired', by: null, note: null, claim: answered })
    }
    return due.map(({ approval }) => approval.runId)
  }

  #decide(question: Question, decided: Decided): void {
    const { state, by, note } = decided
    question.approval = { ...question.approval, state, note, decidedBy: by, decidedAt: new Date() }
    const claim = this.#claims.get(`${question.approval.tool} ${question.key}`)
    if (decided.claim === null || claim?.row.status !== 'processing' || claim.row.leaseUntil > new Date()) return
    if (decided.claim.kind === 'complete') this.#complete(claim, decided.claim.result)
    else claim.row = { ...claim.row, status: 'reclaimable' }
  }

  #complete(claim: Claim, result: StoredResponse['result']): void {
    claim.row = { ...claim.row, status: 'completed' }
    claim.response = { result, completedAt: new Date() }
  }

  #locked(approval: Approval): LockedApproval {
    const { state, argumentsHash: hash, expiresAt, toolVersion, connectionId, approvers, principal, tool } = approval
    return {
      approval,
      subject: {
        state,
        argumentsHash: hash,
        expiresAt,
        toolVersion,
        connectionId,
        approvers,
        startedByActorId: principal.startedBy.id,
      },
      context: {
        now: new Date(),
        toolEnabled: !this.disabled.has(tool),
        granted: !this.withdrawn.has(tool),
        connectionUsable: true,
        runOpen: !this.cancelled,
        selfApproval: false,
      },
    }
  }
}

function nameOf(call: AdmittedCall): string {
  return `${call.spec.name} ${call.key}`
}

function subjectOf({ organizationId, runId, tool, argumentsHash: hash }: Approval) {
  return { organizationId, runId, action: tool, argumentsHash: hash }
}

function subjectOfCall({ invocation, spec, argsHash }: AdmittedCall) {
  return {
    organizationId: invocation.organizationId,
    runId: invocation.runId,
    action: spec.name,
    argumentsHash: argsHash,
  }
}

function approvalOf(call: AdmittedCall, hold: Parameters<CallLedger['file']>[1], expiresAt: Date): Approval {
  const { organizationId, runId, principal } = call.invocation
  return {
    id: hold.approvalId,
    organizationId,
    runId,
    spanId: call.span.id,
    kind: hold.kind,
    state: 'pending',
    tool: call.spec.name,
    toolVersion: call.spec.version,
    arguments: call.args,
    argumentsHash: argumentsHash(call.args),
    connectionId: null,
    preview: hold.preview,
    rule: null,
    facts: {},
    approvers: [],
    principal,
    requestedAt: new Date(),
    expiresAt,
    decidedAt: null,
    decidedBy: null,
    note: null,
  }
}
