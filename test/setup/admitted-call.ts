import { randomUUID } from 'node:crypto'
import type { LimitCount } from '../../src/decision/limits.ts'
import { plainSpec } from '../../src/testing/plain-spec.ts'
import type { AdmittedCall, DecisionRecord } from '../../src/tools/invoker.ts'
import type { ToolSpec } from '../../src/tools/models.ts'

const SPEC = plainSpec({ name: 'crm.note', sideEffects: 'write' })

export interface CallOf {
  readonly organizationId: string
  readonly runId: string
  /** Hex sha-256. */
  readonly argsHash: string
  readonly key: string
  readonly spec?: Partial<ToolSpec>
}

/** A call as the ledger gets it, for tests of the ledger alone. A new span every time. */
export function admittedCall({ organizationId, runId, argsHash, key, spec = {} }: CallOf): AdmittedCall {
  return {
    invocation: {
      organizationId,
      userId: null,
      runId,
      definitionId: runId,
      stepPath: 'agent',
      principal: {
        agent: 'outreach',
        userId: null,
        roles: [],
        scopes: ['crm.note'],
        startedBy: { kind: 'system', id: 'test', name: 'test' },
      },
      ceilings: { maxTurns: 1, maxToolCalls: 1, maxDurationS: 60, maxCostCents: null },
      deadline: new Date(8.64e15),
      source: 'library',
      contracts: {},
    },
    rootRunId: runId,
    toolName: SPEC.name,
    span: { id: randomUUID(), parentId: null, startedAt: new Date(), input: {} },
    spec: { ...SPEC, ...spec },
    args: {},
    argsHash,
    key,
  }
}

/** A decision that lets a call run and says what it counts. */
export function allowing(counts: readonly LimitCount[] = []): DecisionRecord {
  const policy = {
    effect: 'allow',
    ruleId: null,
    ruleName: null,
    message: null,
    ttlS: null,
    approvers: [],
    facts: {},
    shadow: [],
    counters: counts.map((count) => ({ ...count, asks: false })),
  } as const
  return { stage: 2, outcome: 'allow', policy, message: null, approvalId: null }
}
