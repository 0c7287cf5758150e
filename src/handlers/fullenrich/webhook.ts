import { createHmac, timingSafeEqual } from 'node:crypto'
import { UnreadableDelivery, type ProviderJobUpdate, type ProviderWebhookAdapter } from '../../provider-jobs/adapter.ts'
import { isTerminal } from '../../provider-jobs/transition.ts'
import { own, type JsonValue } from '../../tools/json.ts'
import { Batch, BATCH_STATES, FULLENRICH, jobOfBatch } from './wire.ts'

/**
 * Callbacks of FullEnrich: `X-Signature-SHA1`, an HMAC of the raw body under the key of the account. There is no secret
 * of its own, no time and no id of the delivery; one batch sends one callback when it has ended.
 *
 * @param keys the account's key, and former ones for batches that were out when it was changed
 */
export function fullEnrichWebhook(keys: readonly string[]): ProviderWebhookAdapter {
  return {
    provider: FULLENRICH,
    verify(rawBody, headers) {
      const signature = headers('x-signature-sha1')
      if (signature === undefined || !/^[0-9a-f]{40}$/.test(signature)) return false
      const given = Buffer.from(signature, 'hex')
      // Every key is tried, whichever fits: the time says nothing about which one did.
      return keys.map((key) => timingSafeEqual(createHmac('sha1', key).update(rawBody).digest(), given)).includes(true)
    },
    deliveryId: (payload) => batchOf(payload).id,
    read: updateOf,
  }
}

function updateOf(payload: JsonValue): ProviderJobUpdate {
  const { id, name, status, cost } = batchOf(payload)
  const state = own(BATCH_STATES, status.toUpperCase())
  if (state === undefined) throw new UnreadableDelivery('the status of the batch is not known')
  return {
    providerJobId: id,
    namedJobId: jobOfBatch(name),
    state,
    cost: cost === null || cost === undefined ? null : { credits: cost.credits },
    result: isTerminal(state) ? payload : null,
  }
}

function batchOf(payload: JsonValue) {
  const { data } = Batch.safeParse(payload)
  if (data === undefined) throw new UnreadableDelivery('the body is no batch')
  return data
}
