/**
 * How calls of one run can come together. An agent's turn is one `call` as wide as its framework runs reads at the same
 * time; a workflow nests.
 */
export type CallShape =
  | { readonly kind: 'call'; readonly vendors: readonly string[]; readonly width: number }
  /** One after the other, or one instead of the other: never at the same time. */
  | { readonly kind: 'sequence' | 'branch'; readonly parts: readonly CallShape[] }
  | { readonly kind: 'parallel'; readonly parts: readonly CallShape[] }

/** What may run in one lane. */
export interface LaneLoad {
  readonly lane: string
  /** Runs of the lane that are active at the same time, in all organizations and processes. */
  readonly activeRuns: number
  /** Definitions whose runs go through the lane. A child run counts in its own lane, never under its parent. */
  readonly definitions: readonly { readonly slug: string; readonly shape: CallShape }[]
}

/** An account at a vendor. */
export interface VendorAccount {
  readonly vendor: string
  /** Calls the vendor takes at the same time; null when nobody wrote it down. */
  readonly limit: number | null
  /** Where the limit was read. */
  readonly source?: string
}

export interface LaneReach {
  readonly lane: string
  readonly activeRuns: number
  /** Calls of one run, at most. */
  readonly callsPerRun: number
  /** The definition that reaches it. */
  readonly definition: string
  readonly calls: number
}

export interface VendorReach {
  readonly vendor: string
  readonly limit: number | null
  readonly lanes: readonly LaneReach[]
  /** Calls at the same time, at most. */
  readonly calls: number
  readonly verdict: 'fits' | 'over' | 'no limit recorded'
}

/** Calls to a vendor that a run of this shape can have in flight at the same time. */
export function widestReach(shape: CallShape, vendor: string): number {
  switch (shape.kind) {
    case 'call':
      return shape.vendors.includes(vendor) ? shape.width : 0
    case 'sequence':
    case 'branch':
      return Math.max(0, ...shape.parts.map((part) => widestReach(part, vendor)))
    case 'parallel':
      return shape.parts.reduce((sum, part) => sum + widestReach(part, vendor), 0)
  }
}

/**
 * A vendor's ceiling is arithmetic: what every lane can reach, added up, must not be more than the account takes. The
 * worst case of a lane is that all of its runs are of the definition that reaches furthest.
 */
export function vendorArithmetic(
  accounts: readonly VendorAccount[],
  lanes: readonly LaneLoad[],
): readonly VendorReach[] {
  const named = [...accounts.map(({ vendor }) => vendor), ...lanes.flatMap(vendorsOf)]
  return [...new Set(named)].toSorted().map((vendor) => {
    const limit = accounts.find((account) => account.vendor === vendor)?.limit ?? null
    const reached = lanes.flatMap((lane) => reachOf(lane, vendor))
    const calls = reached.reduce((sum, lane) => sum + lane.calls, 0)
    const verdict = limit === null ? 'no limit recorded' : calls <= limit ? 'fits' : 'over'
    return { vendor, limit, lanes: reached, calls, verdict }
  })
}

function reachOf({ lane, activeRuns, definitions }: LaneLoad, vendor: string): LaneReach[] {
  const [furthest] = definitions
    .map(({ slug, shape }) => ({ definition: slug, callsPerRun: widestReach(shape, vendor) }))
    .toSorted((a, b) => b.callsPerRun - a.callsPerRun || a.definition.localeCompare(b.definition))
  if (furthest === undefined || furthest.callsPerRun === 0) return []
  return [{ lane, activeRuns, ...furthest, calls: activeRuns * furthest.callsPerRun }]
}

function vendorsOf({ definitions }: LaneLoad): string[] {
  return definitions.flatMap(({ shape }) => vendorsIn(shape))
}

function vendorsIn(shape: CallShape): readonly string[] {
  return shape.kind === 'call' ? shape.vendors : shape.parts.flatMap(vendorsIn)
}
