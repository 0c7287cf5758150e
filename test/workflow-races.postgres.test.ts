import { afterAll, beforeAll, expect, test } from 'vitest'
import { agent, parallel } from '../src/runs/workflow/index.ts'
import type { Script } from '../src/testing/script.ts'
import { testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER } from './setup/world.ts'
import { workflowScene } from './workflow-scene.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

const sending: Script = ({ input, turns }) =>
  turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: input } }] } : { text: 'sent' }

test('a cancel on its way down, ends on their way up, and answers in between never wait for each other', async () => {
  const rules = [{ name: 'sends wait', tools: ['email.send'], effect: 'require_approval' as const }]
  const scene = await workflowScene({ database: db.database, script: sending, rules })
  const { organizationId, core, runtime } = scene
  const child = (id: string) => agent(id, { definition: 'outreach', input: `${id}@acme.test` })
  await scene.publish(parallel('all', [child('a'), child('b'), child('c')]))
  const ending = { status: 'completed', reason: null, message: null, output: null } as const
  for (let round = 0; round < 15; round += 1) {
    const run = await scene.play()
    const { items } = await runtime.runs.list(organizationId, { limit: 10, status: 'parked' })
    const children = items.filter(({ parentRunId }) => parentRunId === run.id).map(({ id }) => id)
    expect(children).toHaveLength(3)
    const cancel = runtime.runs.cancel({ organizationId, runId: run.id, reason: null, by: STARTER })
    await Promise.all([
      ...children.map((id) => core.stores.runs.fail(id, ending)),
      cancel,
      ...children.map((id) =>
        scene.approve(id).catch((error: unknown) => expect(String(error)).toContain('the answer was')),
      ),
    ])
    await scene.engine.settle()
    const ended = await Promise.all([run.id, ...children].map((id) => scene.run(id)))
    expect(ended.map(({ endedAt }) => endedAt === null)).toEqual([false, false, false, false])
    expect(ended[0]?.status).toBe('cancelled')
  }
})
