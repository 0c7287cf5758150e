import type { ToolSpec } from '../tools/models.ts'

/** An internal tool that asks for nothing special, for suites that need a contract and no handler. */
export function plainSpec(parts: Pick<ToolSpec, 'name' | 'sideEffects'> & Partial<ToolSpec>): ToolSpec {
  return {
    description: 'A tool of these tests.',
    inputSchema: {},
    outputSchema: {},
    version: 1,
    schemaHash: '0'.repeat(64),
    kind: 'internal',
    binding: { handlerKey: parts.name },
    egress: parts.sideEffects === 'send',
    connection: null,
    timeoutS: 30,
    retry: 'none',
    metered: false,
    repeatable: parts.sideEffects === 'read' ? null : false,
    approvalPreview: false,
    policyFacts: [],
    batchArgument: null,
    maxBatchSize: null,
    maxResults: null,
    maxOutputBytes: null,
    itemKind: null,
    downstreamKey: false,
    downstreamKeyS: null,
    onUnknown: 'reclaim',
    ...parts,
  }
}
