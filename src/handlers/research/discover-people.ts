import { z } from 'zod'
import { vendorTool, type ToolDeclaration } from '../../tools/declarations.ts'
import { ok } from '../../tools/models.ts'
import { type RetryBudget, readFromVendor, timeoutFor } from '../vendor/retry-budget.ts'
import type { FoundPerson, PeopleProvider } from './people-provider.ts'
import { MAX_PEOPLE, namesAnybody, PERSONA_FIELDS } from './persona.ts'
import { clippedLine, clippedText, webAddress } from './vendor-text.ts'

const Candidate = z.object({
  name: z.string(),
  title: z.string().nullable(),
  company: z.string().nullable(),
  location: z.string().nullable(),
  linkedinUrl: z.string().nullable(),
  sourceUrl: z.string().nullable(),
  snippet: z.string().nullable(),
})

export interface DiscoverPeopleOptions {
  /** Those a model may choose from, by name; at least one. */
  readonly providers: readonly PeopleProvider[]
  readonly budget?: RetryBudget
}

/** Three requests of 20 s and two pauses: 70 s at worst. */
export const DISCOVER_PEOPLE_BUDGET: RetryBudget = {
  attempts: 3,
  attemptMs: 20_000,
  backoffMs: 1_000,
  maxPauseMs: 5_000,
}

/**
 * Finds people that fit a buyer persona, at one provider a call: one call is one charge and one usage row, which its span
 * names. Whoever wants a wider search makes a call for each provider.
 *
 * @throws Error for providers that a model could not tell apart
 */
export function discoverPeopleTool({
  providers,
  budget = DISCOVER_PEOPLE_BUDGET,
}: DiscoverPeopleOptions): ToolDeclaration<'research.discover_people'> {
  const byName = providersByName(providers)
  return vendorTool({
    name: 'research.discover_people',
    description:
      'Find people outside the CRM who fit a buyer persona. Give at least a title, title family, seniority, function or company. Each call asks one provider and is charged.',
    input: z
      .object({ provider: z.enum([...byName.keys()]).describe('Whom to ask.'), ...PERSONA_FIELDS })
      .refine(namesAnybody, 'needs a title, titleFamily, seniority, function, company or domain'),
    output: z.array(Candidate),
    sideEffects: 'read',
    egress: true,
    metered: true,
    retry: 'none',
    vendors: [...new Set([...byName.values()].map(({ vendor }) => vendor))],
    timeoutS: timeoutFor(budget),
    maxResults: MAX_PEOPLE,
    handler: {
      async execute(_invocation, { provider: name, ...query }, { signal, meter }) {
        const provider = byName.get(name)
        if (provider === undefined) throw new Error('the provider is none of this deployment')
        const found = await readFromVendor((attempt) => provider.search(query, attempt), { budget, signal })
        await meter.record({ ...found.usage, provider: provider.vendor })
        const asked = found.candidates.slice(0, query.limit)
        const candidates = asked.flatMap(boundedCandidate)
        const nameless = asked.length - candidates.length
        return ok(candidates, {
          untrusted: true,
          ...(nameless === 0 ? {} : { partialReason: `${nameless} of ${asked.length} results name nobody` }),
        })
      },
    },
  })
}

function providersByName(providers: readonly PeopleProvider[]): ReadonlyMap<string, PeopleProvider> {
  const byName = new Map(providers.map((provider) => [provider.name, provider]))
  if (byName.size === 0) throw new Error('research.discover_people needs a provider')
  if (byName.size !== providers.length) throw new Error('two providers of research.discover_people have one name')
  for (const name of byName.keys()) {
    if (!/^[a-z][a-z0-9_]{0,31}$/.test(name)) throw new Error('the name of a provider is lower case letters and digits')
  }
  return byName
}

/** Without a name there is nobody to speak of. */
function boundedCandidate(found: FoundPerson): z.output<typeof Candidate>[] {
  const name = clippedLine(found.name, 120)
  if (name === null) return []
  return [
    {
      name,
      title: clippedLine(found.title, 200),
      company: clippedLine(found.company, 200),
      location: clippedLine(found.location, 200),
      linkedinUrl: webAddress(found.linkedinUrl),
      sourceUrl: webAddress(found.sourceUrl),
      snippet: clippedText(found.snippet, 600),
    },
  ]
}
