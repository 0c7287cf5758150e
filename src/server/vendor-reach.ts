import { EMBEDDED_CONCURRENCY } from '../engines/embedded/engine.ts'
import { READ_CONCURRENCY } from '../frameworks/ai-sdk/session.ts'
import { takesClaim } from '../tools/models.ts'
import { vendorArithmetic, type CallShape, type VendorReach } from '../usage/vendor-arithmetic.ts'
import type { AppParts } from './config.ts'

/**
 * How far the agents of a deployment can reach at each vendor at the same time. An agent's turn runs its reads side by
 * side, and its writes and sends one by one; each process has so many active runs, and a run that waits is none of them.
 */
export function vendorReach(parts: AppParts, processes: number): readonly VendorReach[] {
  const shapes = new Map(
    parts.tools.map(({ spec, vendors }): [string, CallShape] => [
      spec.name,
      { kind: 'call', vendors, width: takesClaim(spec) ? 1 : READ_CONCURRENCY },
    ]),
  )
  const definitions = (parts.definitions ?? []).map(({ slug, tools }) => ({
    slug,
    shape: { kind: 'branch' as const, parts: tools.flatMap((tool) => shapes.get(tool) ?? []) },
  }))
  const lane = { lane: 'interactive', activeRuns: EMBEDDED_CONCURRENCY * processes, definitions }
  return vendorArithmetic(parts.vendorAccounts ?? [], [lane])
}
