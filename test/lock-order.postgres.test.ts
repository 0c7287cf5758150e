import { afterAll, beforeAll, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, STARTER, world } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

const ROUNDS = 40
const PEOPLE = 6

/** As many questions as there are people, all open at once. */
const script = ({ turns }: { turns: readonly unknown[] }) =>
  turns.length === 0
    ? { calls: Array.from({ length: PEOPLE }, (_, n) => ({ tool: 'email.send', args: { to: `p${n}@acme.test` } })) }
    : { text: 'done' }

test('answers, a stop, a cancel, two sweeps and the end of a run in one instant wait for no circle', async () => {
  const a = await world({ database: db.database, script })
  const b = await world({ database: await db.another(), script })
  const { organizationId } = a
  for (let round = 0; round < ROUNDS; round += 1) {
    const run = await a.start()
    await a.engine.settle()
    const questions = await a.pending(run.id)
    expect(questions).toHaveLength(PEOPLE)
    const answers = questions.map(({ id, argumentsHash }, index) =>
      (index % 2 === 0 ? a : b).core.approvals[index % 3 === 0 ? 'approve' : 'reject']({
        organizationId,
        approvalId: id,
        argumentsHash,
        decider: { actor: APPROVER, roles: ['approver'] },
        note: null,
        stopRun: true,
      }),
    )
    const cancel = b.runtime.runs.cancel({ organizationId, runId: run.id, reason: null, by: STARTER })
    const ending = { status: 'failed', reason: 'internal_error', message: null, output: null } as const
    const end = a.core.stores.runs.fail(run.id, ending)
    const sweeps = [a, b].map((one) => one.engine.sweep())
    await expect(Promise.all([...answers, cancel, end, ...sweeps])).resolves.toBeDefined()
    await a.engine.settle()
    await b.engine.settle()
    expect((await a.run(run.id)).status).toBe('failed')
    expect(await a.pending(run.id)).toEqual([])
  }
})
