import { z } from 'zod'
import { UnreadableDelivery, type ProviderJobUpdate, type ProviderWebhookAdapter } from '../../provider-jobs/adapter.ts'
import { standardWebhookVerifier, type StandardWebhookKeys } from '../../provider-jobs/standard-webhooks.ts'
import { own, type JsonValue } from '../../tools/json.ts'
import { PARALLEL } from './parallel-sdk.ts'
import { RunId } from './parallel-task-client.ts'

/** `action_required` and `cancelling` are not the end yet. */
const STATES = {
  queued: 'running',
  action_required: 'running',
  running: 'running',
  cancelling: 'running',
  completed: 'completed',
  failed: 'failed',
  cancelled: 'cancelled',
} as const

const Event = z.object({
  type: z.literal('task_run.status'),
  data: z.object({
    run_id: RunId,
    status: z.string().max(64),
    processor: z.string().max(64).nullish().catch(null),
    metadata: z
      .object({ job_id: z.string().max(64) })
      .nullish()
      .catch(null),
  }),
})

/** Callbacks of Parallel's Task API: signed as Standard Webhooks says, and without the result of the run. */
export function parallelTaskWebhook(keys: StandardWebhookKeys, now: () => Date): ProviderWebhookAdapter {
  return {
    provider: PARALLEL,
    verify: standardWebhookVerifier(keys, now),
    deliveryId(_payload, headers) {
      const id = headers('webhook-id')
      if (id === undefined) throw new UnreadableDelivery('the delivery has no id')
      return id
    },
    read: updateOf,
  }
}

function updateOf(payload: JsonValue): ProviderJobUpdate {
  const { data: event } = Event.safeParse(payload)
  if (event === undefined) throw new UnreadableDelivery('the body is no event of a task run')
  const { run_id: providerJobId, status, processor, metadata } = event.data
  const state = own(STATES, status)
  if (state === undefined) throw new UnreadableDelivery('the status of the task run is not known')
  const cost = processor === null || processor === undefined ? null : { processor }
  // A run that failed says why in the event itself; there is nothing to fetch.
  const result = state === 'failed' || state === 'cancelled' ? payload : null
  return { providerJobId, namedJobId: metadata?.job_id ?? null, state, cost, result }
}
