import { afterEach, expect, test } from 'vitest'
import { standardWebhookVerifier } from '../src/provider-jobs/standard-webhooks.ts'
import { type ParallelTaskSimulator, startParallelTaskSimulator } from './parallel-task.ts'

let simulator: ParallelTaskSimulator
afterEach(() => simulator.close())

const RUN = {
  input: 'Sample Freight',
  processor: 'core',
  task_spec: {
    output_schema: { type: 'json', json_schema: { type: 'object', properties: { head: { type: 'string' } } } },
  },
  metadata: { job_id: 'x' },
  webhook: { url: 'http://127.0.0.1:1/x', event_types: ['task_run.status'] },
}

const post = (body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${simulator.url}/v1/tasks/runs`, {
    method: 'POST',
    headers: { 'x-api-key': 'key', 'parallel-beta': 'webhook-2025-08-12', ...headers },
    body: JSON.stringify(body),
  })

async function firstRun(headers?: Record<string, string>) {
  simulator = await startParallelTaskSimulator({ keys: ['key'] })
  expect((await post(RUN, headers)).status).toBe(202)
  const [run] = simulator.runs
  if (run === undefined) throw new Error('no run')
  return run
}

test('a run is queued, and its result is there when it is asked for', async () => {
  const run = await firstRun()
  const result = await fetch(`${simulator.url}/v1/tasks/runs/${run.id}/result`, { headers: { 'x-api-key': 'key' } })
  expect(await result.json()).toMatchObject({
    run: { run_id: run.id, status: 'completed', metadata: { job_id: 'x' } },
    output: {
      type: 'json',
      content: { head: 'head of Sample Freight' },
      basis: [{ field: 'head', confidence: 'high' }],
    },
  })
  expect(simulator.results()).toBe(1)
})

test('without the header of the beta there is no callback', async () => {
  expect(await firstRun({ 'parallel-beta': '' })).toMatchObject({ webhookUrl: null })
})

test('a request without a key, or with names of metadata that are too long, is refused', async () => {
  await firstRun()
  expect((await post(RUN, { 'x-api-key': 'other' })).status).toBe(401)
  expect((await post({ ...RUN, metadata: { ['x'.repeat(17)]: 'y' } })).status).toBe(422)
})

test('a callback is signed as the standard says, carries no result, and is the same body each time', async () => {
  const run = await firstRun()
  const [first, second] = [simulator.callback(run), simulator.callback(run, { offS: 5 })]
  const verify = standardWebhookVerifier({ secrets: ['secret-of-the-account'], encoding: 'text' }, () => new Date())
  for (const { headers, body } of [first, second]) expect(verify(body, (name) => headers[name])).toBe(true)
  expect(second.body).toEqual(first.body)
  expect(Buffer.from(first.body).toString('utf8')).not.toContain('output')
})
