import { z } from 'zod'
import { type ToolDeclaration, vendorTool } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { readFromVendor, type RetryBudget, timeoutFor } from '../vendor/retry-budget.ts'
import { domain } from './arguments.ts'
import { HUNTER_BUDGET } from './find-contact.ts'
import { type HunterClient, hunterClient } from './hunter-client.ts'
import { readCompany } from './hunter-company.ts'
import { refuseDryRun, refuseDryRunRow } from './hunter-dry-run.ts'

const TOOL = 'research.enrich_company'

export interface EnrichCompanyOptions {
  readonly access: VendorAccess
  readonly prices: VendorPriceBook
  readonly budget?: RetryBudget
  /** In place of the one made from `access`. */
  readonly client?: HunterClient
}

const Output = z.object({
  found: z.boolean(),
  /** Null when nothing is known. */
  company: z
    .object({
      domain: z.string(),
      name: z.string().nullable(),
      description: z.string().nullable(),
      industry: z.string().nullable(),
      /** A number, or a range such as 11-50. */
      employees: z.string().nullable(),
      location: z.string().nullable(),
      country: z.string().nullable(),
      founded: z.int().nullable(),
      linkedin: z.string().nullable(),
      tags: z.array(z.string()),
    })
    .nullable(),
})

/**
 * What Hunter knows about the company behind a domain.
 *
 * @throws Error for a key or an address no request should be made with, or without a price
 */
export function enrichCompanyTool(options: EnrichCompanyOptions): ToolDeclaration<typeof TOOL> {
  const { access, prices, budget = HUNTER_BUDGET, client = hunterClient(access) } = options
  // An answer that nothing can be charged for must not be asked for.
  prices.cents('hunter', 'company-enrichment', 1)
  return vendorTool({
    name: TOOL,
    description:
      'Look up a company by its domain: name, industry, size, place, founding year. Answers found: false when nothing is known. Found companies cost money.',
    input: z.object({ domain: domain().describe('Domain of the company, such as example.com.') }),
    output: Output,
    sideEffects: 'read',
    egress: true,
    metered: true,
    retry: 'none',
    vendors: ['hunter'],
    timeoutS: timeoutFor(budget),
    handler: {
      async execute(_invocation, { domain }, { meter, signal }) {
        refuseDryRun(client, TOOL)
        const query = { domain: domain.toLowerCase() }
        const answer = await readFromVendor((attempt) => client.get({ path: '/companies/find', query, ...attempt }), {
          budget,
          signal,
        })
        if (answer.kind === 'answered') refuseDryRunRow(answer.data, TOOL)
        const company = answer.kind === 'missing' ? null : readCompany(answer.data, query.domain)
        // One credit for a company, none for a miss.
        const credits = company === null ? 0 : 1
        await meter.record({
          provider: 'hunter',
          item: 'company-enrichment',
          quantity: { credits },
          costCents: prices.cents('hunter', 'company-enrichment', credits),
        })
        return ok({ found: company !== null, company }, { untrusted: true })
      },
    },
  })
}
