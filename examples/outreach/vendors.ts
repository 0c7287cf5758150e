import type { OutgoingGuard } from 'bailiff/outgoing'
import {
  discoverPeopleTool,
  enrichCompanyTool,
  exaPeople,
  findContactTool,
  scrapeTool,
  searchCompanyTool,
  vendorPriceBook,
  type VendorAccess,
} from 'bailiff/handlers/research'
import type { VendorKeys } from 'bailiff/server'
import { startExaSimulator } from '../../simulators/exa.ts'
import { startFirecrawlSimulator } from '../../simulators/firecrawl.ts'
import { startHunterSimulator } from '../../simulators/hunter.ts'
import { startParallelSimulator, type ParallelSimulatorSettings } from '../../simulators/parallel.ts'

type Vendor = Exclude<keyof VendorKeys, 'nylas' | 'fullenrich' | 'parallelWebhook'>

interface Simulated {
  readonly url: string
  close(): Promise<void>
}

interface Source {
  readonly live: string
  readonly start: (find?: ParallelSimulatorSettings['find']) => Promise<Simulated>
  /** What follows the origin in the vendor's base URL. */
  readonly path: string
}

const SOURCES: Readonly<Record<Vendor, Source>> = {
  exa: { live: 'https://api.exa.ai', start: () => startExaSimulator(), path: '' },
  parallel: {
    live: 'https://api.parallel.ai',
    start: (find) => startParallelSimulator(find === undefined ? {} : { find }),
    path: '',
  },
  firecrawl: { live: 'https://api.firecrawl.dev', start: () => startFirecrawlSimulator(), path: '' },
  hunter: { live: 'https://api.hunter.io/v2', start: () => startHunterSimulator(), path: '/v2' },
}

export interface ResearchOptions {
  readonly keys: VendorKeys
  readonly guard: OutgoingGuard
  /** What the stand-in of the web search finds; pages it makes up unless given. */
  readonly find?: ParallelSimulatorSettings['find']
}

/**
 * The research tools. A vendor whose key is set is asked for real, every other one is a stand-in on this machine that makes
 * its answers up.
 */
export async function researchTools({ keys, guard, find }: ResearchOptions) {
  const running: Simulated[] = []
  const access = async (vendor: Vendor): Promise<VendorAccess> => {
    const { live, start, path } = SOURCES[vendor]
    const apiKey = keys[vendor]
    if (apiKey !== null) return { apiKey, baseUrl: live }
    const simulator = await start(find)
    running.push(simulator)
    return { apiKey: 'simulated', baseUrl: `${simulator.url}${path}` }
  }
  const [exa, parallel, firecrawl, hunter] = await Promise.all(
    (['exa', 'parallel', 'firecrawl', 'hunter'] as const).map(access),
  )
  if (exa === undefined || parallel === undefined || firecrawl === undefined || hunter === undefined)
    throw new Error('a vendor has no access')
  const prices = vendorPriceBook()
  return {
    tools: [
      searchCompanyTool({ access: parallel, prices }),
      discoverPeopleTool({ providers: [exaPeople({ access: exa, prices })] }),
      scrapeTool({ access: firecrawl, prices, guard }),
      findContactTool({ access: hunter, prices }),
      enrichCompanyTool({ access: hunter, prices }),
    ],
    notices: noticesOf(keys),
    close: async () => {
      await Promise.all(running.map((simulator) => simulator.close()))
    },
  }
}

function noticesOf(keys: VendorKeys): string[] {
  const vendors = Object.keys(SOURCES) as Vendor[]
  const simulated = vendors.filter((vendor) => keys[vendor] === null)
  const real = vendors.filter((vendor) => keys[vendor] !== null)
  const variables = simulated.map((vendor) => `${vendor.toUpperCase()}_API_KEY`)
  return [
    ...(simulated.length === 0
      ? []
      : [
          `simulated vendors: ${simulated.join(', ')}; what they answer is made up, until ${variables.join(', ')} is set`,
        ]),
    ...(real.length === 0 ? [] : [`real vendors: ${real.join(', ')}; their calls cost money`]),
  ]
}
