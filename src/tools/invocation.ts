import type { ToolSpec } from './models.ts'

/** Who did something: a person in the console, an API key, or the platform itself. */
export interface Actor {
  readonly kind: 'user' | 'api_key' | 'system'
  readonly id: string
  /** For people; never used to decide. */
  readonly name: string
}

/** On whose authority a run acts. `scopes` is already the agent's grant ∩ the caller's rights, as platform names. */
export interface Principal {
  /** Slug of the published definition. */
  readonly agent: string
  readonly userId: string | null
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  readonly startedBy: Actor
}

/** Turns, tool calls and seconds are the *remainder* of the segment; `maxCostCents` stays the frozen budget of the run tree. */
export interface RunCeilings {
  readonly maxTurns: number
  readonly maxToolCalls: number
  readonly maxDurationS: number
  readonly maxCostCents: number | null
}

export type RunSource = 'api' | 'console' | 'cli' | 'demo' | 'library'

/** The contracts a run was shown, by platform name. Frozen at start; visibility is this and nothing else. */
export type ToolSnapshot = Readonly<Record<string, ToolSpec>>

/**
 * The ambient identity of every call of one segment; never model context. It carries no span id: one invocation is
 * older than each call made through it, so span identity is ambient (`spans/ambient.ts`).
 */
export interface ToolInvocation {
  readonly organizationId: string
  readonly userId: string | null
  readonly runId: string
  readonly definitionId: string
  /** Workflow node id, or the literal `agent`. */
  readonly stepPath: string
  readonly principal: Principal
  readonly ceilings: RunCeilings
  readonly deadline: Date
  readonly source: RunSource
  readonly contracts: ToolSnapshot
}

/** What one call may know beyond its arguments. Dies with the call. */
export interface HandlerContext {
  /** The resolved connection with its credential, or null when the tool declares none. */
  readonly credential: Credential | null
  /** Stable over retries and restarts; pass it to a receiver that honours idempotency keys. Null for reads. */
  readonly idempotencyKey: string | null
  /** Aborts at the tool timeout or the run deadline, whichever is first. */
  readonly signal: AbortSignal
  /** Where a metered tool records what its call cost, once, before it answers. */
  readonly meter: CallMeter
}

export interface CallMeter {
  /**
   * Writes the one usage row of this call and answers its id.
   * @throws Error when the row cannot be written: data that the run cannot count must not be answered
   */
  record(usage: UsageRecord): Promise<string>
}

/** What a vendor's answer cost, as the vendor reported it where it does. */
export interface UsageRecord {
  readonly provider: string
  /** What was bought: an endpoint, a model, a product. */
  readonly item: string
  /** What was counted, such as `{ credits: 3 }`. */
  readonly quantity: Readonly<Record<string, number>>
  readonly costCents: number
}

export interface Credential {
  readonly connectionId: string
  readonly provider: string
  /** Public settings of the connection: hosts, ports, sender addresses. */
  readonly settings: Readonly<Record<string, string>>
  /** Secret values; redacted from everything the call answers or records. */
  readonly secrets: Readonly<Record<string, string>>
}
