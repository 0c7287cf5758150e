import { createHmac } from 'node:crypto'
import { afterEach, expect, test } from 'vitest'
import { type FullEnrichSettings, type FullEnrichSimulator, startFullEnrichSimulator } from './fullenrich.ts'
import { startVendorServer } from './vendor-server.ts'

const running: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const server of running.splice(0)) await server.close()
})

async function start(settings: FullEnrichSettings = {}): Promise<FullEnrichSimulator> {
  const simulator = await startFullEnrichSimulator({ keys: ['key'], ...settings })
  running.push(simulator)
  return simulator
}

const CONTACT = {
  first_name: 'Sample',
  last_name: 'Person',
  domain: 'freight.test',
  enrich_fields: ['contact.work_emails'],
  custom: { ref: 'a' },
}
const BATCH = { name: 'agentic:x', webhook_url: 'http://127.0.0.1:1/x', data: [CONTACT] }

const post = (simulator: FullEnrichSimulator, body: unknown, authorization = 'Bearer key') =>
  fetch(`${simulator.url}/contact/enrich/bulk`, {
    method: 'POST',
    headers: authorization === '' ? {} : { authorization },
    body: JSON.stringify(body),
  })

test.each([
  ['', 'error.authorization.not_set'],
  ['key', 'error.authorization.not_bearer'],
  ['Bearer other', 'error.api.key'],
])('a request with the key "%s" is refused', async (authorization, code) => {
  const answer = await post(await start(), BATCH, authorization)
  expect([answer.status, ((await answer.json()) as { code: string }).code]).toEqual([401, code])
})

test.each([
  ['without a name', { ...BATCH, name: '' }],
  ['without contacts', { ...BATCH, data: [] }],
  ['with a field it does not know', { ...BATCH, callback: 'x' }],
  ['with a contact nobody could find', { ...BATCH, data: [{ ...CONTACT, domain: undefined }] }],
  ['with a field that is none of a contact', { ...BATCH, data: [{ ...CONTACT, phone: true }] }],
])('a batch %s is refused, and is no batch', async (_says, body) => {
  const simulator = await start()
  expect((await post(simulator, body)).status).toBe(400)
  expect(simulator.batches).toEqual([])
})

test('a batch is answered with its id, can be looked at, and counts a credit for each address found', async () => {
  const simulator = await start()
  const nobody = { ...CONTACT, last_name: 'Nobody', custom: { ref: 'b' } }
  const { enrichment_id: id } = (await (await post(simulator, { ...BATCH, data: [CONTACT, nobody] })).json()) as {
    enrichment_id: string
  }
  const looked = await fetch(`${simulator.url}/contact/enrich/bulk/${id}`, { headers: { authorization: 'Bearer key' } })
  expect(await looked.json()).toMatchObject({
    id,
    name: 'agentic:x',
    status: 'FINISHED',
    cost: { credits: 1 },
    data: [
      { custom: { ref: 'a' }, contact_info: { most_probable_work_email: { email: 'sample.person@freight.test' } } },
      { custom: { ref: 'b' }, contact_info: { most_probable_work_email: null } },
    ],
  })
  expect(simulator.credits()).toBe(1)
})

test('addresses are made up at domains that nobody can own', async () => {
  const simulator = await start()
  await post(simulator, { ...BATCH, data: [{ ...CONTACT, domain: 'acme.com' }] })
  const [batch] = simulator.batches
  if (batch === undefined) throw new Error('no batch')
  expect(Buffer.from(simulator.callback(batch).body).toString('utf8')).toContain('sample.person@example.com')
})

test('a callback is signed over its exact bytes, which are more than the JSON they hold', async () => {
  const received: { body: Buffer; signature: unknown }[] = []
  const receiver = await startVendorServer({
    behaviour: ({ raw, headers }) => {
      received.push({ body: raw, signature: headers['x-signature-sha1'] })
      return { status: 200, body: {} }
    },
  })
  running.push(receiver)
  const simulator = await start({ callsBack: 'before_answer' })
  await post(simulator, { ...BATCH, webhook_url: `${receiver.url}/x` })
  const [callback] = received
  if (callback === undefined) throw new Error('it did not call back')
  const { body, signature } = callback
  const signed = (bytes: Buffer | string): string => createHmac('sha1', 'key').update(bytes).digest('hex')
  expect(signature).toBe(signed(body))
  expect(signature).not.toBe(signed(JSON.stringify(JSON.parse(body.toString('utf8')))))
})

test('a callback can be padded to a size, and stays JSON', async () => {
  const simulator = await start()
  await post(simulator, BATCH)
  const [batch] = simulator.batches
  if (batch === undefined) throw new Error('no batch')
  const { body } = simulator.callback(batch, { bytes: 100_000 })
  expect(body).toHaveLength(100_000)
  expect(JSON.parse(Buffer.from(body).toString('utf8'))).toMatchObject({ id: batch.id })
})
