import { expect, onTestFinished, test, vi } from 'vitest'
import { unnamed } from '../src/storage/statement.ts'
import { oauthScene } from './oauth-scene.ts'
import { ACCESS_TTL_S } from './setup/authorization-server.ts'
import { testDatabase } from './setup/database.ts'

test('two processes that meet the end of one token make one request, and both act with what it granted', async () => {
  const db = await testDatabase()
  onTestFinished(() => db.close())
  const one = await oauthScene(db.database)
  onTestFinished(() => one.server.close())
  const two = await one.another(await db.another())
  const { id } = await one.connect()
  one.ahead(ACCESS_TTL_S + 5)
  // The first is held at the provider until the second is seen waiting for the row.
  one.server.beforeToken = () =>
    vi.waitFor(async () => {
      const { rows } = await db.database.query<{ waiting: number }>(
        unnamed(`SELECT count(*)::int AS waiting FROM pg_stat_activity
                 WHERE wait_event_type = 'Lock' AND datname = current_database()`),
      )
      expect(rows).toEqual([{ waiting: 1 }])
    })
  const [ours, theirs] = await Promise.all([one.tokenFor(id), two.tokenFor(id)])
  expect(ours).toBe(theirs)
  expect(await one.server.accepts(ours)).toBe(true)
  expect(one.server.tokenRequests).toEqual(['authorization_code', 'refresh_token'])
})
