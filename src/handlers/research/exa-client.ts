import { z } from 'zod'
import type { VendorAccess } from '../vendor/access.ts'
import { bufferedFetch, retryAfterMs } from '../vendor/buffered-fetch.ts'
import { VendorError, type VendorTrouble } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from './status-trouble.ts'

const VENDOR = 'exa'

/** Results an answer may hold; none was asked for more than ten. */
const MAX_RESULTS = 100

const Entity = z.object({ type: z.string(), properties: z.unknown() })

const Result = z.object({
  url: z.string(),
  title: z.string().nullish(),
  author: z.string().nullish(),
  highlights: z.array(z.string()).nullish(),
  /** Only results about people and companies have any; new types may come. */
  entities: z.array(Entity).nullish(),
})

const Answer = z.object({
  results: z.array(Result).max(MAX_RESULTS),
  // The shape below the total differs between the SDK and the API. A cost that cannot be read is unknown, not zero.
  costDollars: z.object({ total: z.number().nonnegative() }).nullish().catch(null),
})

const PersonProperties = z.object({
  name: z.string().nullish(),
  location: z.string().nullish(),
  workHistory: z
    .array(
      z.object({
        title: z.string().nullish(),
        dates: z.object({ to: z.string().nullish() }).nullish(),
        company: z.object({ name: z.string().nullish() }).nullish(),
      }),
    )
    .nullish(),
})

export type ExaPerson = z.output<typeof PersonProperties>

export interface ExaResult extends Omit<z.output<typeof Result>, 'entities'> {
  /** What Exa knows of the person whose page this is; null when it knows nothing. */
  readonly person: ExaPerson | null
}

export interface ExaAnswer {
  readonly results: readonly ExaResult[]
  /** US dollars as charged; null when the answer does not say. */
  readonly dollars: number | null
}

export interface ExaSearch {
  readonly query: string
  readonly numResults: number
}

interface Attempt {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * One people search, one request.
 * @throws VendorError
 */
export async function searchExaPeople(
  { query, numResults }: ExaSearch,
  { access, attempt }: { readonly access: VendorAccess; readonly attempt: Attempt },
): Promise<ExaAnswer> {
  const client = await exaClient(access, attempt)
  const answer: unknown = await client.search(query, {
    type: 'auto',
    category: 'people',
    numResults,
    // Without this the SDK orders ten thousand characters of every page, and charges and tokens with them.
    contents: { highlights: { maxCharacters: 600 } },
  })
  return readable(answer)
}

/**
 * The SDK builds the request; sending it is ours. Its own transport has no deadline and no signal, drops the headers and
 * the machine code of a failure, follows a redirect with the key, and answers `undefined` for an empty body.
 */
async function exaClient({ apiKey, baseUrl }: VendorAccess, attempt: Attempt) {
  // Loaded with the first search: the SDK is an optional peer of the package.
  const { Exa } = await import('exa-js')
  const send = bufferedFetch({ vendor: VENDOR, ...attempt })
  class BufferedExa extends Exa {
    override async request<T = unknown>(endpoint: string, method: string, body?: unknown): Promise<T> {
      const response = await send(baseUrl + endpoint, {
        method,
        headers: { 'content-type': 'application/json', 'x-api-key': apiKey },
        body: JSON.stringify(body),
      })
      const answer = parsed(await response.text())
      if (response.status !== 200) throw failureOf(response, answer)
      return answer as T
    }
  }
  return new BufferedExa(apiKey, baseUrl)
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

const Refusal = z.object({
  tag: z.string().optional().catch(undefined),
  requestId: z.string().optional().catch(undefined),
})

function failureOf({ status, headers }: Response, body: unknown): VendorError {
  const { data } = Refusal.safeParse(body)
  return new VendorError({
    vendor: VENDOR,
    trouble: troubleOf(status, data?.tag),
    status,
    retryAfterMs: retryAfterMs(headers.get('retry-after')),
    vendorCode: data?.tag ?? null,
    requestId: data?.requestId ?? headers.get('x-request-id'),
  })
}

/** The status decides. The tag only tells apart whom a 403 is about: the content, the plan or the key. */
function troubleOf(status: number, tag: string | undefined): VendorTrouble {
  if (status === 403 && tag === 'PROHIBITED_CONTENT') return 'refused'
  if (status === 403 && tag === 'FEATURE_DISABLED') return 'payment'
  return troubleOfStatus(status)
}

function readable(body: unknown): ExaAnswer {
  try {
    const { results, costDollars } = Answer.parse(body)
    return {
      results: results.map(({ entities, ...result }) => ({ ...result, person: personOf(entities ?? []) })),
      dollars: costDollars?.total ?? null,
    }
  } catch (cause) {
    throw new VendorError({ vendor: VENDOR, trouble: 'decode', status: 200, cause })
  }
}

function personOf(entities: readonly z.output<typeof Entity>[]): ExaPerson | null {
  const person = entities.find(({ type }) => type === 'person')
  return person === undefined ? null : PersonProperties.parse(person.properties ?? {})
}
