import type { Effect, PolicyDefaults } from '../decision/stage-two.ts'
import { DEFAULT_APPROVAL_TTL_S, SAFE_DEFAULTS } from '../decision/stage-two.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import type { StoredRule } from './rule.ts'
import { MAX_TTL_S } from './rule.ts'
import type { CompiledRules } from './rule-set.ts'
import { compileRules } from './rule-set.ts'

/** Everything stage 2 needs of one organization. */
interface OrganizationPolicy {
  readonly version: number
  readonly rules: CompiledRules
  readonly defaults: PolicyDefaults
  /** Seconds a person has to answer where the rule does not say. */
  readonly approvalTtlS: number
  /** Whether who started a run may decide on its calls. */
  readonly selfApproval: boolean
}

export interface Policy {
  /**
   * The policy at this version or a newer one; the claim checks again that it is still the current one.
   *
   * @throws Error when the source is behind the version asked for, or holds settings that cannot be read
   */
  load(organizationId: string, version: number): Promise<OrganizationPolicy>
}

/** Stored settings of an organization; what is absent takes the platform's default. */
export interface PolicySettings {
  readonly selfApproval?: boolean
  readonly approvalTtlS?: number
  readonly policyDefaults?: Partial<PolicyDefaults>
}

export interface PolicySnapshot {
  readonly version: number
  readonly rules: readonly StoredRule[]
  readonly settings: PolicySettings
}

/** Reads rules, settings and version of an organization in one statement, so that they belong together. */
export interface PolicySource {
  read(organizationId: string): Promise<PolicySnapshot>
}

/** Versions of organizations whose compiled rules are kept. */
const KEPT_POLICIES = 500

/** Keeps compiled rules by organization and the version that was read. A version never changes its content. */
export function cachedPolicy(source: PolicySource, catalogue: PolicyCatalogue, kept = KEPT_POLICIES): Policy {
  const ready = new Map<string, OrganizationPolicy>()
  const reading = new Map<string, Promise<OrganizationPolicy>>()

  async function read(organizationId: string): Promise<OrganizationPolicy> {
    const snapshot = await source.read(organizationId)
    const key = keyOf(organizationId, snapshot.version)
    const policy = ready.get(key) ?? compile(snapshot, catalogue)
    remember(ready, { key, policy }, kept)
    return policy
  }

  return {
    async load(organizationId, version) {
      const key = keyOf(organizationId, version)
      const known = ready.get(key)
      if (known !== undefined) {
        remember(ready, { key, policy: known }, kept)
        return known
      }
      // Callers that ask for the same version while it is being read share one read.
      const pending = reading.get(key) ?? read(organizationId).finally(() => reading.delete(key))
      reading.set(key, pending)
      const policy = await pending
      if (policy.version < version)
        throw new Error(`the policy source answered version ${policy.version} when ${version} is current`)
      return policy
    },
  }
}

function keyOf(organizationId: string, version: number): string {
  return `${version}:${organizationId}`
}

/** Last in the map is the most recently used. */
function remember(
  ready: Map<string, OrganizationPolicy>,
  entry: { readonly key: string; readonly policy: OrganizationPolicy },
  kept: number,
): void {
  ready.delete(entry.key)
  ready.set(entry.key, entry.policy)
  for (const oldest of ready.keys()) {
    if (ready.size <= kept) break
    ready.delete(oldest)
  }
}

function compile(snapshot: PolicySnapshot, catalogue: PolicyCatalogue): OrganizationPolicy {
  const { version, rules, settings } = snapshot
  return {
    version,
    rules: compileRules(rules, catalogue, version),
    defaults: defaultsOf(settings),
    approvalTtlS: ttlOf(settings),
    selfApproval: settings.selfApproval === true,
  }
}

/** @throws Error when what is stored is no effect */
export function defaultsOf(settings: PolicySettings): PolicyDefaults {
  const { read, write, send } = { ...SAFE_DEFAULTS, ...settings.policyDefaults }
  for (const effect of [read, write, send]) {
    if (!isEffect(effect)) throw new Error('the policy defaults of the organization hold an effect that does not exist')
  }
  return { read, write, send }
}

function isEffect(value: unknown): value is Effect {
  return value === 'allow' || value === 'deny' || value === 'require_approval'
}

function ttlOf(settings: PolicySettings): number {
  const ttlS = settings.approvalTtlS ?? DEFAULT_APPROVAL_TTL_S
  if (Number.isInteger(ttlS) && ttlS >= 1 && ttlS <= MAX_TTL_S) return ttlS
  throw new Error('the approval time of the organization cannot be read')
}
