import { z } from 'zod'
import { type ToolDeclaration, vendorTool } from '../../tools/declarations.ts'
import { UpstreamUnavailableError } from '../../tools/errors.ts'
import type { HandlerContext } from '../../tools/invocation.ts'
import { type HandlerAnswer, ok } from '../../tools/models.ts'
import type { VendorPriceBook } from '../../usage/vendor-prices.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { readFromVendor, type RetryBudget, timeoutFor } from '../vendor/retry-budget.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { domain, line } from './arguments.ts'
import { type HunterAnswer, type HunterClient, hunterClient } from './hunter-client.ts'
import { type FoundContact, readContact } from './hunter-contact.ts'
import { refuseDryRun, refuseDryRunRow } from './hunter-dry-run.ts'
import { personDigest, type Suppression, type Suppressions, suppressionsInMemory } from './suppressions.ts'
import { VERIFICATIONS } from './verification.ts'

const TOOL = 'research.find_contact'

export interface FindContactOptions {
  readonly access: VendorAccess
  readonly prices: VendorPriceBook
  readonly budget?: RetryBudget
  /** Who is not to be asked about; kept in memory unless given. */
  readonly suppressions?: Suppressions
  /** In place of the one made from `access`. */
  readonly client?: HunterClient
}

/** Three requests of 15 s and two pauses: 65 s at worst. */
export const HUNTER_BUDGET: RetryBudget = { attempts: 3, attemptMs: 15_000, backoffMs: 1_000, maxPauseMs: 10_000 }

const Input = z
  .object({
    firstName: line(100).optional().describe('Given name; with lastName.'),
    lastName: line(100).optional().describe('Family name; with firstName.'),
    fullName: line(200).optional().describe('Whole name, when its parts are not known.'),
    domain: domain().optional().describe('Domain of the company, such as example.com. Better than its name.'),
    company: line(200).optional().describe('Name of the company, when its domain is not known.'),
  })
  .refine(
    ({ firstName, lastName, fullName }) =>
      fullName !== undefined || (firstName !== undefined && lastName !== undefined),
    'needs firstName and lastName, or fullName',
  )
  .refine(({ domain, company }) => domain !== undefined || company !== undefined, 'needs a domain or a company')

type In = z.output<typeof Input>

const Output = z.object({
  email: z.string().nullable(),
  verification: z.enum(VERIFICATIONS),
  /** The mailbox belongs to a function, such as info@, and not to a person. */
  role: z.boolean(),
  /** The provider's confidence, 0 to 100. */
  score: z.int().nullable(),
  name: z.string(),
  position: z.string().nullable(),
  /** Pages the address was seen on. */
  sources: z.array(
    z.object({ uri: z.string(), lastSeenOn: z.string().nullable(), stillOnPage: z.boolean().nullable() }),
  ),
})

type Out = z.output<typeof Output>

/**
 * The address of one person, as Hunter knows it: one the provider answered, and never one built from a pattern here. Whether
 * an address may be used is the reader's decision, so a role mailbox and an unconfirmed address are flagged and kept.
 *
 * @throws Error for a key or an address no request should be made with, or without a price
 */
export function findContactTool(options: FindContactOptions): ToolDeclaration<typeof TOOL> {
  const { access, prices, budget = HUNTER_BUDGET, client = hunterClient(access) } = options
  const finder: Finder = { client, prices, budget, suppressions: options.suppressions ?? suppressionsInMemory() }
  // An answer that nothing can be charged for must not be asked for.
  prices.cents('hunter', 'email-finder', 1)
  return vendorTool({
    name: TOOL,
    description:
      'Find the work email address of one person at a company. Answers one address with how far it is confirmed, or none. Found addresses cost money.',
    input: Input,
    output: Output,
    sideEffects: 'read',
    egress: true,
    metered: true,
    retry: 'none',
    vendors: ['hunter'],
    timeoutS: timeoutFor(budget),
    handler: (_invocation, args, context) => findContact(finder, args, context),
  })
}

interface Finder {
  readonly client: HunterClient
  readonly prices: VendorPriceBook
  readonly budget: RetryBudget
  readonly suppressions: Suppressions
}

async function findContact(finder: Finder, args: In, { meter, signal }: HandlerContext): Promise<HandlerAnswer<Out>> {
  const { client, prices, suppressions } = finder
  refuseDryRun(client, TOOL)
  const asked = askedFor(args)
  if (await suppressions.has(asked.suppression)) {
    throw new UpstreamUnavailableError('hunter: this person asked not to be processed; no request was made')
  }
  const answer = await askHunter(finder, asked, signal)
  if (answer.kind === 'answered') refuseDryRunRow(answer.data, TOOL)
  const contact = answer.kind === 'missing' ? null : readContact(answer.data)
  // One credit for an address, none for a miss.
  const credits = contact === null ? 0 : 1
  await meter.record({
    provider: 'hunter',
    item: 'email-finder',
    quantity: { credits },
    costCents: prices.cents('hunter', 'email-finder', credits),
  })
  return ok(contact === null ? missOf(asked.name) : foundOf(contact, asked.name), { untrusted: true })
}

interface Asked {
  readonly name: string
  readonly query: Readonly<Record<string, string>>
  readonly suppression: Suppression
}

/** The parts of a name before the whole, and a domain before a company: the provider is surest of these. */
function askedFor({ firstName, lastName, fullName, domain, company }: In): Asked {
  const parted = firstName !== undefined && lastName !== undefined
  const name = parted ? `${firstName} ${lastName}` : (fullName ?? '')
  const place = domain?.toLowerCase() ?? company ?? ''
  return {
    name,
    query: {
      ...(parted ? { first_name: firstName, last_name: lastName } : { full_name: name }),
      ...(domain === undefined ? { company: place } : { domain: place }),
    },
    suppression: { vendor: 'hunter', person: personDigest(name, place) },
  }
}

/** Milliseconds the provider gets less than we wait, so that it is the one who gives up and says so. */
const HEAD_START_MS = 5_000

async function askHunter(finder: Finder, { query, suppression }: Asked, signal: AbortSignal): Promise<HunterAnswer> {
  const { client, budget, suppressions } = finder
  try {
    return await readFromVendor(
      ({ timeoutMs, signal }) => {
        // Seconds, between the least and the most that the provider takes.
        const seconds = Math.min(20, Math.max(3, Math.floor((timeoutMs - HEAD_START_MS) / 1000)))
        const limited = { ...query, max_duration: String(seconds) }
        return client.get({ path: '/email-finder', query: limited, timeoutMs, signal })
      },
      { budget, signal },
    )
  } catch (error) {
    // 451: remembered before it is answered, so that nobody is asked about them again.
    const cause = error instanceof UpstreamUnavailableError ? error.cause : null
    if (cause instanceof VendorError && cause.status === 451) await suppressions.add(suppression)
    throw error
  }
}

function missOf(name: string): Out {
  return { email: null, verification: 'not_found', role: false, score: null, name, position: null, sources: [] }
}

function foundOf(contact: FoundContact, askedName: string): Out {
  const { email, verification, role, score, name, position, sources } = contact
  return { email, verification, role, score, name: name ?? askedName, position, sources: [...sources] }
}
