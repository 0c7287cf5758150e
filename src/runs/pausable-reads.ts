import type { PolicyEngine } from '../tools/invoker.ts'
import { takesClaim, type ToolSpec } from '../tools/models.ts'

/**
 * The reads of a segment that a rule may hold. A read runs inside the framework's loop, where it cannot wait for a
 * person; one that may have to is proposed instead, like a write. A rule that is added while the segment runs still ends
 * the run at the read it holds.
 */
export async function pausableReads(
  policy: Pick<PolicyEngine, 'mayAsk'>,
  organizationId: string,
  contracts: readonly ToolSpec[],
): Promise<ReadonlySet<string>> {
  const reads = contracts.filter((contract) => !takesClaim(contract))
  return reads.length === 0 ? new Set() : policy.mayAsk(organizationId, reads)
}
