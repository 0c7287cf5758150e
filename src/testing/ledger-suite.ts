import assert from 'node:assert/strict'
import type { ApprovalStore, Decided } from '../approvals/approval-store.ts'
import type { AdmittedCall, CallLedger, DecisionRecord, ToolSpan } from '../tools/invoker.ts'
import type { ToolInvocation } from '../tools/invocation.ts'
import type { ToolResult } from '../tools/models.ts'
import { failure } from '../tools/result.ts'
import { argumentsHash } from '../tools/canonical.ts'
import { CALLS, TOOLS, type Step } from './ledger-history.ts'
import { LedgerModel, type ModelCall } from './ledger-model.ts'
import { plainSpec } from './plain-spec.ts'

/** A store under test, and the knobs a history turns. */
export interface LedgerScene {
  readonly ledger: CallLedger
  readonly approvals: ApprovalStore
  readonly organizationId: string
  readonly runId: string
  /** Slug the grants are for. */
  readonly agent: string
  readonly newId: () => string
  setGranted(tool: string, granted: boolean): Promise<void>
  setEnabled(tool: string, enabled: boolean): Promise<void>
  /** Moves the rules version by one. */
  changeRules(): Promise<void>
  cancel(): Promise<void>
  /** What time does to every open claim. */
  expireLeases(): Promise<void>
  /** What time does to one open question. */
  makeDue(approvalId: string): Promise<void>
}

/** Plays a history against a store and the reference model; throws where they differ. */
export async function playHistory(scene: LedgerScene, steps: readonly Step[]): Promise<void> {
  const player = new Player(scene)
  for (const step of steps) await player.play(step)
}

const LEFT = failure({ code: 'timeout', message: 'left', stop: null })
const ALLOW: DecisionRecord = { stage: 2, outcome: 'allow', policy: null, message: null, approvalId: null }
const ASK: DecisionRecord = { ...ALLOW, outcome: 'require_approval' }
const LEASE_S = 3600

class Player {
  readonly #scene: LedgerScene
  readonly #model = new LedgerModel(TOOLS)
  /** Claims somebody believes to hold, by the span that took them. */
  readonly #working: AdmittedCall[] = []
  readonly #actions: string[] = []
  readonly #outcomes: string[] = []

  constructor(scene: LedgerScene) {
    this.#scene = scene
  }

  async play(step: Step): Promise<void> {
    switch (step.do) {
      case 'open':
        return this.#open(callAt(step.call), this.#handed(step.handed))
      case 'file':
        return this.#file(callAt(step.call))
      case 'claim':
      case 'claim stale':
        return this.#claim(callAt(step.call), step.do === 'claim stale')
      case 'close':
        return this.#close(step.worker, step.ending)
      case 'answer':
        return this.#answer(step.approval, step.state)
      case 'ask outcome':
        return this.#askOutcome(callAt(step.call))
      case 'answer outcome':
        return this.#answerOutcome(step.approval, step.how)
      case 'make due':
        return this.#makeDue(step.approval)
      default:
        return this.#turn(step)
    }
  }

  async #open(call: ModelCall, handed: readonly string[]): Promise<void> {
    const state = await this.#scene.ledger.open(this.#admit(call), { spend: false, authorizedBy: handed })
    const claim = this.#model.claim(call)
    assert.deepEqual(
      {
        journal:
          state.journal === null
            ? null
            : {
                status: state.journal.status,
                attempt: state.journal.attempt,
                live: state.journal.leaseUntil > state.now,
              },
        response: state.response?.result ?? null,
        enabled: state.toolEnabled,
        granted: state.granted,
        cancelled: state.cancelled !== null,
        approval: state.approval?.id ?? null,
      },
      {
        journal:
          claim === null
            ? null
            : {
                status: claim.status,
                attempt: claim.attempt,
                live:
                  claim.status === 'processing' && claim.live
                    ? true
                    : claim.status !== 'processing'
                      ? state.journal !== null && state.journal.leaseUntil > state.now
                      : false,
              },
        response: claim?.status === 'completed' ? claim.result : null,
        enabled: this.#model.enabled(call.tool),
        granted: this.#model.granted(call.tool),
        cancelled: this.#model.cancelled,
        approval: this.#model.covering(call, handed),
      },
      `open ${call.tool} ${call.text}`,
    )
  }

  async #file(call: ModelCall): Promise<void> {
    const admitted = this.#admit(call)
    const approvalId = this.#scene.newId()
    const outcome = await this.#scene.ledger.file(admitted, {
      approvalId,
      kind: 'action',
      preview: null,
      decision: ASK,
      ttlS: LEASE_S,
      pauseId: null,
      connectionId: null,
    })
    const expected = this.#model.file(call, approvalId, 'action')
    assert.deepEqual(sketch(outcome), expected, `file ${call.tool} ${call.text}`)
    if (outcome.kind === 'filed') this.#actions.push(approvalId)
  }

  async #claim(call: ModelCall, stale: boolean): Promise<void> {
    const admitted = this.#admit(call)
    const rulesVersion = this.#model.rulesVersion - (stale ? 1 : 0)
    const outcome = await this.#scene.ledger.claim(admitted, ALLOW, { rulesVersion, leaseS: LEASE_S })
    const expected = this.#model.take(call, { owner: admitted.span.id, moved: stale })
    assert.equal(outcome.kind, expected.kind, `claim ${call.tool} ${call.text}`)
    if (outcome.kind === 'claimed' && expected.kind === 'claimed') {
      assert.equal(outcome.attempt, expected.attempt)
      this.#working.push(admitted)
    }
    if (outcome.kind === 'completed' && expected.kind === 'completed')
      assert.deepEqual(outcome.response.result, expected.result)
  }

  async #close(worker: number, ending: 'complete' | 'release' | 'hold'): Promise<void> {
    const call = this.#working[worker % Math.max(1, this.#working.length)]
    if (call === undefined) return
    const result: ToolResult = {
      ok: true,
      data: { by: call.span.id },
      error: null,
      meta: { truncated: false, untrusted: false },
      stop: null,
    }
    const closed = await this.#scene.ledger.close(call, {
      claim: ending,
      result,
      status: 'ok',
      code: null,
      decision: null,
      replayed: false,
      attempt: 1,
    })
    assert.equal(
      closed,
      this.#model.end(modelCallOf(call), { owner: call.span.id, ending, result }),
      `close ${ending} ${call.toolName}`,
    )
  }

  async #askOutcome(call: ModelCall): Promise<void> {
    if (!this.#model.unknown(call)) return
    const approvalId = this.#scene.newId()
    const outcome = await this.#scene.ledger.file(this.#admit(call), {
      approvalId,
      kind: 'outcome',
      preview: null,
      decision: ASK,
      ttlS: LEASE_S,
      pauseId: null,
      connectionId: null,
    })
    assert.deepEqual(
      sketch(outcome),
      this.#model.file(call, approvalId, 'outcome'),
      `ask about ${call.tool} ${call.text}`,
    )
    if (outcome.kind === 'filed') this.#outcomes.push(approvalId)
  }

  async #answer(index: number, state: 'approved' | 'rejected'): Promise<void> {
    const id = this.#actions[index % Math.max(1, this.#actions.length)]
    if (id !== undefined) await this.#decide(id, { state, by: null, note: null, claim: null })
  }

  async #answerOutcome(index: number, how: 'arrived' | 'send again' | 'leave'): Promise<void> {
    const id = this.#outcomes[index % Math.max(1, this.#outcomes.length)]
    if (id === undefined) return
    const state = how === 'leave' ? 'rejected' : 'approved'
    await this.#decide(id, {
      state,
      by: null,
      note: null,
      claim: how === 'send again' ? { kind: 'reclaim' } : { kind: 'complete', result: LEFT },
    })
  }

  async #decide(id: string, decided: Decided): Promise<void> {
    const seen = await this.#scene.approvals.answer(this.#scene.organizationId, id, ({ approval }) => ({
      write: approval.state === 'pending' ? decided : null,
      value: approval.state,
    }))
    assert.equal(seen, this.#model.answer(id, decided), `answer ${decided.state}`)
  }

  async #makeDue(index: number): Promise<void> {
    const all = [...this.#actions, ...this.#outcomes]
    const id = all[index % Math.max(1, all.length)]
    if (id === undefined) return
    await this.#scene.makeDue(id)
    this.#model.makeDue(id)
  }

  async #turn(
    step: Extract<
      Step,
      { readonly do: 'set granted' | 'set enabled' | 'change rules' | 'cancel' | 'expire leases' | 'expire due' }
    >,
  ): Promise<void> {
    switch (step.do) {
      case 'set granted': {
        const tool = TOOLS[step.tool % TOOLS.length] ?? TOOLS[0]
        await this.#scene.setGranted(tool, step.to)
        return this.#model.setGranted(tool, step.to)
      }
      case 'set enabled': {
        const tool = TOOLS[step.tool % TOOLS.length] ?? TOOLS[0]
        await this.#scene.setEnabled(tool, step.to)
        return this.#model.setEnabled(tool, step.to)
      }
      case 'change rules':
        await this.#scene.changeRules()
        return this.#model.changeRules()
      case 'cancel':
        await this.#scene.cancel()
        return this.#model.cancel()
      case 'expire leases':
        await this.#scene.expireLeases()
        return this.#model.expireLeases()
      case 'expire due': {
        await this.#scene.approvals.expireDue(1000, { kind: 'complete', result: LEFT })
        return this.#model.expireDue(LEFT)
      }
    }
  }

  #handed(seed: number): readonly string[] {
    return this.#actions.filter((_, index) => ((seed >> (index % 3)) & 1) === 1)
  }

  #admit(call: ModelCall): AdmittedCall {
    const { organizationId, runId, agent, newId } = this.#scene
    const args = { text: call.text }
    const argsHash = argumentsHash(args)
    const span: ToolSpan = { id: newId(), parentId: null, startedAt: new Date(), input: args }
    const sideEffects = call.onUnknown === 'ask' ? 'send' : 'write'
    const spec = plainSpec({ name: call.tool, sideEffects, onUnknown: call.onUnknown })
    return {
      invocation: invocationOf({ organizationId, runId, agent }),
      rootRunId: runId,
      toolName: call.tool,
      span,
      spec,
      args,
      argsHash,
      key: `${runId}:agent:${argsHash}`,
    }
  }
}

function callAt(index: number): ModelCall {
  const call = CALLS[index % CALLS.length]
  assert(call !== undefined)
  return call
}

function modelCallOf(call: AdmittedCall): ModelCall {
  const found = CALLS.find(({ tool, text }) => tool === call.toolName && text === call.args['text'])
  assert(found !== undefined)
  return found
}

function sketch(outcome: Awaited<ReturnType<CallLedger['file']>>): object {
  switch (outcome.kind) {
    case 'filed':
      return { kind: 'filed', approvalId: outcome.approvalId }
    case 'pending':
      return { kind: 'pending', approvalId: outcome.approvalId, sameCall: outcome.sameCall }
    case 'rejected':
      return { kind: 'rejected' }
  }
}

function invocationOf({
  organizationId,
  runId,
  agent,
}: Pick<LedgerScene, 'organizationId' | 'runId' | 'agent'>): ToolInvocation {
  return {
    organizationId,
    userId: null,
    runId,
    definitionId: runId,
    stepPath: 'agent',
    principal: {
      agent,
      userId: null,
      roles: [],
      scopes: [...TOOLS],
      startedBy: { kind: 'system', id: 'suite', name: 'suite' },
    },
    ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 60, maxCostCents: null },
    deadline: new Date(8.64e15),
    source: 'api',
    contracts: {},
  }
}
