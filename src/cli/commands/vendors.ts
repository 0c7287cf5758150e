import { vendorReach } from '../../server/vendor-reach.ts'
import type { VendorReach } from '../../usage/vendor-arithmetic.ts'
import { withConfig } from '../config-parts.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { table } from '../text.ts'

export interface ArithmeticOptions {
  readonly config?: string
  readonly processes: string
}

/** Prints what a deployment can reach at each vendor at the same time, and fails when an account takes less. */
export async function arithmetic(context: Context, options: ArithmeticOptions): Promise<void> {
  const processes = Number(options.processes)
  if (!Number.isInteger(processes) || processes < 1)
    throw new CommandFailed(EXIT.usage, '--processes is a whole number of at least 1')
  const { environment } = context
  await withConfig({ config: options.config, environment }, ({ path, parts }) => {
    const vendors = vendorReach(parts, processes)
    context.answer({ config: path, processes, vendors }, () => arithmeticText(vendors))
    const over = vendors.filter(({ verdict }) => verdict === 'over').map(({ vendor }) => vendor)
    if (over.length > 0)
      throw new CommandFailed(
        EXIT.failed,
        `more calls can reach ${over.join(', ')} at the same time than the account takes`,
        'run fewer processes, give agents fewer of its tools, or raise the limit of the account',
      )
    return Promise.resolve()
  })
}

function arithmeticText(vendors: readonly VendorReach[]): string {
  if (vendors.length === 0) return 'no tool of this config uses a vendor account'
  const rows = vendors.map(({ vendor, lanes, calls, limit, verdict }) => [
    vendor,
    lanes.map((lane) => `${lane.lane}: ${lane.activeRuns} runs × ${lane.callsPerRun} (${lane.definition})`).join(' + '),
    String(calls),
    limit === null ? '-' : String(limit),
    verdict,
  ])
  return table([['vendor', 'reached by', 'calls', 'limit', ''], ...rows])
}
