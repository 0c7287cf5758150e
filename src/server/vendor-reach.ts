import { EMBEDDED_CONCURRENCY } from '../engines/embedded/engine.ts'
import { READ_CONCURRENCY } from '../frameworks/ai-sdk/session.ts'
import { laneLimits, LANES } from '../runs/lane.ts'
import { callShapeOf } from '../runs/workflow/call-shape.ts'
import { isWorkflow } from '../runs/workflow/definition.ts'
import { takesClaim } from '../tools/models.ts'
import { vendorArithmetic, type CallShape, type VendorReach } from '../usage/vendor-arithmetic.ts'
import type { AppParts } from './config.ts'

type Definition = NonNullable<AppParts['definitions']>[number]

/**
 * How far the agents and workflows of a deployment can reach at each vendor at the same time. An agent's turn runs its
 * reads side by side, and its writes and sends one by one; a workflow as its nodes say. Each process has so many active
 * runs, each lane its limit over all processes, and a run that waits is none of them.
 */
export function vendorReach(parts: AppParts, processes: number): readonly VendorReach[] {
  const vendors = new Map(parts.tools.map(({ spec, vendors: own }) => [spec.name, own]))
  const widths = new Map(parts.tools.map(({ spec }) => [spec.name, takesClaim(spec) ? 1 : READ_CONCURRENCY]))
  const callOf = (tool: string): CallShape => ({
    kind: 'call',
    vendors: vendors.get(tool) ?? [],
    width: widths.get(tool) ?? 1,
  })
  const shapeOf = (definition: Definition): CallShape =>
    isWorkflow(definition)
      ? callShapeOf(definition, (tool) => vendors.get(tool) ?? [])
      : { kind: 'branch', parts: definition.tools.map(callOf) }
  const limits = laneLimits(parts.lanes)
  const lanes = LANES.map((lane) => ({
    lane,
    activeRuns: Math.min(limits[lane], EMBEDDED_CONCURRENCY * processes),
    definitions: (parts.definitions ?? [])
      .filter((definition) => (definition.lane ?? 'interactive') === lane)
      .map((definition) => ({ slug: definition.slug, shape: shapeOf(definition) })),
  }))
  return vendorArithmetic(parts.vendorAccounts ?? [], lanes)
}
