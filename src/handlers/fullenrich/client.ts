import type { Posted } from '../../provider-jobs/submit.ts'
import type { VendorAccess } from '../vendor/access.ts'
import { bufferedFetch } from '../vendor/buffered-fetch.ts'
import { unlessUnknown } from '../vendor/unknown-outcome.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { troubleOfStatus } from '../research/status-trouble.ts'
import { Accepted, batchName, Complaint, FULLENRICH } from './wire.ts'

/** One contact, in our words. */
export interface ContactQuery {
  readonly ref: string
  readonly firstName: string
  readonly lastName: string
  readonly domain?: string | undefined
  readonly company?: string | undefined
  readonly linkedinUrl?: string | undefined
}

export interface BatchRequest {
  readonly jobId: string
  readonly callbackUrl: string
  readonly contacts: readonly ContactQuery[]
}

interface Attempt {
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/**
 * Starts one batch, with one request. The vendor documents no idempotency key, so a second request would be a second,
 * paid batch: whatever leaves open whether it was taken is answered as unknown and not tried again.
 *
 * @throws VendorError what the vendor definitely refused
 */
export function postBatch(
  request: BatchRequest,
  { access, attempt }: { readonly access: VendorAccess; readonly attempt: Attempt },
): Promise<Posted> {
  return unlessUnknown(async () => {
    const send = bufferedFetch({ vendor: FULLENRICH, ...attempt })
    const response = await send(`${access.baseUrl}/contact/enrich/bulk`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${access.apiKey}`,
        accept: 'application/json',
        'content-type': 'application/json',
      },
      body: JSON.stringify(bodyOf(request)),
    })
    const body = jsonOf(await response.text())
    if (response.ok) return acceptedAs(body)
    const { status } = response
    const vendorCode = Complaint.safeParse(body).data?.code
    throw new VendorError({ vendor: FULLENRICH, trouble: troubleOfStatus(status), status, vendorCode })
  })
}

/** Work addresses and nothing else: the other fields cost more, and nobody asked for them. */
const ENRICH_FIELDS = ['contact.work_emails']

function bodyOf({ jobId, callbackUrl, contacts }: BatchRequest) {
  return {
    name: batchName(jobId),
    webhook_url: callbackUrl,
    data: contacts.map(({ ref, firstName, lastName, domain, company, linkedinUrl }) => ({
      first_name: firstName,
      last_name: lastName,
      ...(domain === undefined ? {} : { domain }),
      ...(company === undefined ? {} : { company_name: company }),
      ...(linkedinUrl === undefined ? {} : { linkedin_url: linkedinUrl }),
      enrich_fields: ENRICH_FIELDS,
      custom: { ref },
    })),
  }
}

/** A success that cannot be read is one all the same, and its callback will name it. */
function acceptedAs(body: unknown): Posted {
  const { data } = Accepted.safeParse(body)
  return data === undefined ? { kind: 'unknown' } : { kind: 'accepted', providerJobId: data.enrichment_id }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
