import type { Context } from 'hono'
import { MAX_DELIVERY_BYTES, type DeliveryOutcome } from '../../provider-jobs/delivery.ts'
import type { App, AppEnv, RouteDependencies } from '../app-env.ts'
import { addressOf } from '../auth.ts'
import { problemResponse } from '../problems.ts'
import { router } from './shapes.ts'

const PATH = '/agentic/webhooks/:provider/:job_id'

/** Where vendors call back. Nobody is signed in: the signature over the raw body is what is believed. */
export function webhookRoutes({ core, hosting }: RouteDependencies): App {
  const routes = router()
  routes.openAPIRegistry.registerPath({
    method: 'post',
    path: '/agentic/webhooks/{provider}/{job_id}',
    summary: 'Callback of a vendor about a job; signed by the vendor, at most 2 MiB',
    security: [],
    responses: {
      200: { description: 'Received; also for what is dropped because sending it again would change nothing' },
      401: { description: 'The signature does not fit' },
      404: { description: 'There is no such provider' },
      413: { description: 'Larger than 2 MiB' },
      429: { description: 'Too many from this address' },
    },
  })
  routes.post(PATH, async (c) => {
    const outcome = await core.providerJobs.receive({
      provider: c.req.param('provider'),
      jobId: c.req.param('job_id'),
      address: addressOf(c, hosting),
      headers: (name) => c.req.header(name),
      body: () => rawBody(c),
    })
    return answerTo(c, outcome)
  })
  return routes
}

function answerTo(c: Context<AppEnv>, outcome: DeliveryOutcome): Response {
  switch (outcome.kind) {
    case 'acknowledged':
      return c.json({ received: true }, 200)
    case 'unknown_provider':
      return problemResponse({
        code: 'not_found',
        detail: 'there is no such provider of jobs',
        remedy: 'use the address that was sent along with the job',
      })
    case 'rate_limited':
      return problemResponse({
        code: 'too_many_attempts',
        detail: 'too many deliveries from this address',
        remedy: `send again in ${outcome.retryAfterS} seconds`,
        headers: { 'retry-after': String(outcome.retryAfterS) },
      })
    case 'too_large':
      return problemResponse({
        code: 'payload_too_large',
        detail: 'the body is larger than 2 MiB',
        remedy: 'send smaller batches',
        // What is left of the body is not read.
        headers: { connection: 'close' },
      })
    case 'bad_signature':
      return problemResponse({
        code: 'unauthenticated',
        detail: 'the signature does not fit the body',
        remedy: 'sign the raw body with the secret of this account',
      })
  }
}

/** Null as soon as it is too large, so that nobody makes us hold more. */
async function rawBody(c: Context<AppEnv>): Promise<Uint8Array | null> {
  if (Number(c.req.header('content-length') ?? 0) > MAX_DELIVERY_BYTES) return null
  const { body } = c.req.raw
  if (body === null) return new Uint8Array()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength
    if (size > MAX_DELIVERY_BYTES) return null
    chunks.push(chunk)
  }
  return new Uint8Array(Buffer.concat(chunks, size))
}
