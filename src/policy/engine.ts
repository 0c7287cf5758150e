import type { FactRequest, FactResolver } from '../tools/handler.ts'
import type { AdmittedCall, Logger, PolicyEngine, PolicyInput, PolicyReading } from '../tools/invoker.ts'
import type { Stage2Outcome } from '../decision/stage-two.ts'
import { decidePolicy } from './decide.ts'
import type { FactResolution } from './facts.ts'
import { resolveFacts } from './facts.ts'
import type { Policy } from './policy.ts'
import type { PolicyCall } from './rule-set.ts'

export interface PolicyEngineParts {
  readonly policy: Policy
  readonly resolvers: ReadonlyMap<string, FactResolver>
  readonly logger: Logger
  /** Milliseconds; only what is left of the run's deadline is measured with it. */
  readonly clock?: () => number
}

const NO_FACTS: FactResolution = { kind: 'resolved', facts: {} }

/** Stage 2 for one call: the organization's rules, the facts they read about this call, and what they say together. */
export function policyEngine(parts: PolicyEngineParts): PolicyEngine {
  const clock = parts.clock ?? Date.now
  return {
    async mayAsk(organizationId, contracts) {
      const { rules, defaults } = await parts.policy.load(organizationId, 0)
      const asks = contracts.filter(
        ({ name, sideEffects }) => defaults[sideEffects] === 'require_approval' || rules.mayAsk(name),
      )
      return new Set(asks.map(({ name }) => name))
    },

    async gather(call: AdmittedCall, { rulesVersion, taintSources, limits }: PolicyInput): Promise<PolicyReading> {
      const organization = await parts.policy.load(call.invocation.organizationId, rulesVersion)
      const { rules, defaults, approvalTtlS } = organization
      const asked: PolicyCall = { tool: call.spec.name, args: call.args, invocation: call.invocation, taintSources }
      const names = { needed: rules.factsNeeded(asked.tool), forShadow: rules.factsForShadow(asked.tool) }
      const none = names.needed.length + names.forShadow.length === 0
      const resolution = none ? NO_FACTS : await resolveFacts(requestOf(call, clock()), names, parts.resolvers)
      if (resolution.kind === 'fault') {
        const { name, message, cause } = resolution
        parts.logger.error('policy fact not resolved', {
          fact: name,
          tool: asked.tool,
          runId: asked.invocation.runId,
          cause,
        })
        return { outcome: faultOutcome(message), approvalTtlS, rulesVersion: organization.version }
      }
      const { sideEffects } = call.spec
      const question = { rules, call: asked, facts: resolution.facts, limits, defaults, sideEffects }
      return { outcome: decidePolicy(question), approvalTtlS, rulesVersion: organization.version }
    },
  }
}

/** Facts are part of the call: they get the tool's own time, and never more than the run has left. */
function requestOf(call: AdmittedCall, now: number): FactRequest {
  const leftMs = Math.max(0, Math.min(call.spec.timeoutS * 1000, call.invocation.deadline.getTime() - now))
  return {
    invocation: call.invocation,
    rootRunId: call.rootRunId,
    tool: call.spec.name,
    args: call.args,
    signal: AbortSignal.timeout(Math.ceil(leftMs)),
  }
}

function faultOutcome(message: string): Stage2Outcome {
  const nobody = { ruleId: null, ruleName: null, ttlS: null, approvers: [] }
  return { ...nobody, effect: 'fault', message, facts: {}, shadow: [], counters: [] }
}
