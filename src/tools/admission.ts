import { batchTooLarge, batchSize, checkContract } from '../decision/admit.ts'
import { refuseBadCall, unknownTool, type Refusal } from '../decision/path.ts'
import { argumentsHash } from './canonical.ts'
import { parseArguments } from './declarations.ts'
import type { AdmittedCall, CallLedger, SpanSubject } from './invoker.ts'
import { own } from './json.ts'
import type { ToolSpec } from './models.ts'
import type { ToolRegistry } from './registry.ts'

export type Admission = { readonly kind: 'admitted'; readonly call: AdmittedCall } | Refusal

interface AdmissionPorts {
  readonly registry: ToolRegistry
  readonly ledger: CallLedger
}

/**
 * Contract, input schema and batch size, all on the frozen contract. Journal, grant, rules and preview are not touched
 * by a call that fails here; one narrow read tells a bad call from a contract that moved under it.
 */
export async function admitCall(ports: AdmissionPorts, subject: SpanSubject, args: unknown): Promise<Admission> {
  const spec = own(subject.invocation.contracts, subject.toolName)
  if (spec === undefined) return unknownTool()
  const declaration = ports.registry.declaration(spec.name)
  if (declaration === undefined) return unknownTool()
  const parsed = parseArguments(declaration, args, spec)
  if (parsed.kind === 'invalid')
    return refuseMoved(ports, subject, { spec, code: 'invalid_input', message: parsed.message })
  if (batchTooLarge(spec, parsed.args)) {
    const message = `${spec.batchArgument} holds ${batchSize(spec, parsed.args)} items; this tool takes at most ${spec.maxBatchSize} a call`
    return refuseMoved(ports, subject, { spec, code: 'batch_too_large', message })
  }
  const argsHash = argumentsHash(parsed.args)
  return {
    kind: 'admitted',
    call: { ...subject, spec, args: parsed.args, argsHash, key: keyOf(subject, argsHash) },
  }
}

/** The key names run, step and arguments; the scope column of the journal names the tool and the organization. */
function keyOf(subject: SpanSubject, argsHash: string): string {
  const { runId, stepPath } = subject.invocation
  return `${runId}:${stepPath}:${argsHash}`
}

async function refuseMoved(
  ports: AdmissionPorts,
  subject: SpanSubject,
  bad: { readonly spec: ToolSpec; readonly code: 'invalid_input' | 'batch_too_large'; readonly message: string },
): Promise<Refusal> {
  const enabled = await ports.ledger.toolEnabled(subject.invocation.organizationId, bad.spec.name)
  return refuseBadCall(bad, checkContract(bad.spec, ports.registry.get(bad.spec.name), enabled))
}
