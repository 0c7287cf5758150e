import { expect, test } from 'vitest'
import { openDoor } from './door.ts'
import { router } from './routes/shapes.ts'

test('a port answers that the server is starting until there is an app, and nothing once it is closed', async () => {
  const door = await openDoor({ host: '127.0.0.1', port: 0, graceMs: 1_000 })
  const early = await fetch(`${door.url}/healthz`)
  expect(early.status).toBe(503)
  expect(early.headers.get('retry-after')).toBe('1')
  expect(await early.json()).toMatchObject({ code: 'unavailable', detail: 'the server is starting' })
  const app = router()
  app.get('/healthz', (c) => c.text('here'))
  door.admit(app)
  expect(await (await fetch(`${door.url}/healthz`)).text()).toBe('here')
  await Promise.all([door.close(), door.close()])
  expect(door.closing.aborted).toBe(true)
  await expect(fetch(`${door.url}/healthz`)).rejects.toThrow('fetch failed')
})

test('an address that is not this machine’s is named with its variable', async () => {
  await expect(openDoor({ host: '203.0.113.1', port: 0, graceMs: 0 })).rejects.toMatchObject({
    fault: 'no_such_address',
    message: expect.stringContaining('BAILIFF_HOST'),
  })
})
