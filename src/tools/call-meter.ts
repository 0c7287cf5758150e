import type { CallMeter, UsageRecord } from './invocation.ts'
import type { AdmittedCall, UsageWriter } from './invoker.ts'

/** The meter of one call, and what it wrote. */
export interface MeteredCall {
  readonly meter: CallMeter
  /** The row the call wrote; null when it wrote none. */
  usageId(): string | null
}

interface MeterPorts {
  readonly writer: UsageWriter
  readonly newId: () => string
  /** The row of this call is written when its job has ended. */
  readonly settlesLater: boolean
}

/**
 * Binds a meter to one call. A tool that is not declared metered passed no budget check, so it cannot charge; a call
 * outside a run tree has nobody to charge; and one span links to one row, so a second charge is a fault.
 */
export function meterOf(call: AdmittedCall, { writer, newId, settlesLater }: MeterPorts): MeteredCall {
  let written: string | null = null
  return {
    usageId: () => written,
    meter: {
      async record(usage) {
        if (!call.spec.metered) throw new Error(`${call.spec.name} recorded usage and is not declared metered`)
        if (settlesLater)
          throw new Error(`${call.spec.name} recorded usage and settles later: it would be charged twice`)
        if (call.rootRunId === null) throw new Error(`${call.spec.name} recorded usage outside a run scope`)
        if (written !== null) throw new Error(`${call.spec.name} recorded usage twice in one call`)
        checkUsage(call.spec.name, usage)
        const id = newId()
        written = id
        const { organizationId, runId } = call.invocation
        await writer.write({ id, organizationId, rootRunId: call.rootRunId, runId, spanId: call.span.id, usage })
        return id
      },
    },
  }
}

/** A charge that is no number would make every later comparison with the ceiling a fault. */
export function checkUsage(tool: string, usage: UsageRecord): void {
  const figures = [usage.costCents, ...Object.values(usage.quantity)]
  if (figures.every((figure) => Number.isFinite(figure) && figure >= 0)) return
  throw new Error(`${tool} recorded usage that is not a number of at least 0`)
}
