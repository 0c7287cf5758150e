import type { ErrorCode } from '../tools/errors.ts'
import type { ToolSpec } from '../tools/models.ts'

/** The live side of a contract: what this process would run, and whether the organization lets it. */
export interface LiveTool {
  readonly version: number
  readonly schemaHash: string
}

/**
 * Compares the frozen contract with the live one. Presence is not enough: a tool that kept its name and changed its
 * schema would refuse arguments that were valid when the run froze, and the model could not know why.
 */
export function checkContract(
  frozen: ToolSpec | undefined,
  live: LiveTool | undefined,
  enabled: boolean,
): Extract<ErrorCode, 'tool_unavailable' | 'tool_changed'> | null {
  if (frozen === undefined || live === undefined || !enabled) return 'tool_unavailable'
  return frozen.version === live.version && frozen.schemaHash === live.schemaHash ? null : 'tool_changed'
}

/** Counts the declared batch; an optional batch that is absent counts as zero. No other list is measured. */
export function batchSize(spec: ToolSpec, args: Readonly<Record<string, unknown>>): number {
  if (spec.batchArgument === null || !Object.hasOwn(args, spec.batchArgument)) return 0
  const batch = args[spec.batchArgument]
  return Array.isArray(batch) ? batch.length : 0
}

export function batchTooLarge(spec: ToolSpec, args: Readonly<Record<string, unknown>>): boolean {
  return spec.maxBatchSize !== null && batchSize(spec, args) > spec.maxBatchSize
}
