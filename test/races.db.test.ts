import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { ApprovalRequired, ClaimInFlight } from '../src/tools/invoker.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { inRun, world, type Effects, type World } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const OPEN = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const

/** Two processes' worth of Bailiff on one database, writing to one outside world. */
async function pair(settings: object = OPEN): Promise<{ a: World; b: World; effects: Effects }> {
  const effects: Effects = { sent: [], notes: [], searches: [] }
  const a = await world({ database: db.database, settings, effects })
  const b = await world({ database: await db.another(), settings, effects })
  return { a, b, effects }
}

const settled = async (work: readonly Promise<unknown>[]) =>
  (await Promise.allSettled(work)).map((one) => (one.status === 'fulfilled' ? one.value : one.reason))

describe('one call, several workers', () => {
  test('racing workers make one effect; every other one replays or is told that the call is in flight', async () => {
    const { a, b, effects } = await pair()
    const invocation = await a.invocation()
    for (let round = 0; round < 25; round += 1) {
      const args = { to: `p${round}@acme.test` }
      const answers = await settled(
        [a, b, a, b].map((w) =>
          inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: 'email.send', args }, invocation)),
        ),
      )
      expect(effects.sent.filter((mail) => mail.to === args.to)).toHaveLength(1)
      for (const answer of answers) {
        if (!(answer instanceof ClaimInFlight)) expect(answer).toMatchObject({ ok: true, data: { accepted: args.to } })
      }
    }
  })

  test('racing workers file one question', async () => {
    const { a, b } = await pair({})
    const invocation = await a.invocation()
    for (let round = 0; round < 25; round += 1) {
      const args = { to: `p${round}@acme.test` }
      const answers = await settled(
        [a, b].map((w) =>
          inRun(w.core, invocation, () => w.core.invoker.invoke({ toolName: 'email.send', args }, invocation)),
        ),
      )
      const ids = answers.map((answer) => (answer instanceof ApprovalRequired ? answer.approvalId : answer))
      expect(ids[0]).toBe(ids[1])
    }
    expect((await a.core.approvals.list(a.organizationId, { limit: 100 })).items).toHaveLength(25)
  })

  test('a grant withdrawn between the decision and the claim is met by the claim', async () => {
    const { a, b, effects } = await pair()
    const invocation = await a.invocation()
    for (let round = 0; round < 25; round += 1) {
      const by = { kind: 'system', id: 't', name: 't' } as const
      const grant = { organizationId: a.organizationId, definition: 'outreach', tool: 'email.send', by }
      await a.core.stores.grants.grant({ ...grant, id: a.core.newId() })
      const args = { to: `p${round}@acme.test` }
      const [answer, revoked] = await Promise.all([
        inRun(a.core, invocation, () => a.core.invoker.invoke({ toolName: 'email.send', args }, invocation)),
        b.core.stores.grants.revoke(grant),
      ])
      // Whichever came first, the answer and the effect agree.
      expect(effects.sent.some((mail) => mail.to === args.to)).toBe(answer.ok)
      if (!answer.ok) expect(answer.error?.code).toBe('denied')
      expect(revoked.revoked).toBe(true)
      // After the revoke has answered, nothing new can begin.
      const later = await inRun(a.core, invocation, () =>
        a.core.invoker.invoke({ toolName: 'email.send', args: { to: `late${round}@acme.test` } }, invocation),
      )
      expect(later.error?.code).toBe('denied')
    }
  })
})

describe('one question, several people', () => {
  const people = ['Ben', 'Cleo'].map((name) => ({
    actor: { kind: 'user' as const, id: `user-${name}`, name },
    roles: [],
  }))

  test.each([['approve', 'approve'] as const, ['approve', 'reject'] as const])(
    '%s and %s in the same instant: one wins, the other is told who decided and when',
    async (first, second) => {
      const { a, b, effects } = await pair({})
      for (let round = 0; round < 10; round += 1) {
        const invocation = await a.invocation()
        const args = { to: `p${round}@acme.test` }
        await expect(
          inRun(a.core, invocation, () => a.core.invoker.invoke({ toolName: 'email.send', args }, invocation)),
        ).rejects.toBeInstanceOf(ApprovalRequired)
        const [question] = (await a.core.approvals.list(a.organizationId, { runId: invocation.runId })).items
        const answer = {
          organizationId: a.organizationId,
          approvalId: question!.id,
          argumentsHash: question!.argumentsHash,
          note: null,
        }
        const outcomes = await Promise.all([
          a.core.approvals[first]({ ...answer, decider: people[0]! }),
          b.core.approvals[second]({ ...answer, decider: people[1]! }),
        ])
        const winner = outcomes.findIndex((outcome) => outcome.kind === 'answered')
        const loser = outcomes[1 - winner]
        expect(outcomes.map((outcome) => outcome.kind).toSorted()).toEqual(['already_decided', 'answered'])
        expect(loser).toMatchObject({ by: { name: people[winner]!.actor.name }, at: expect.any(Date) as Date })
        const authorizedBy = [question!.id]
        const result = await inRun(a.core, invocation, () =>
          a.core.invoker.invoke({ toolName: 'email.send', args }, invocation, { authorizedBy }),
        )
        const approved = [first, second][winner] === 'approve'
        expect(result.ok).toBe(approved)
        expect(effects.sent.some((mail) => mail.to === args.to)).toBe(approved)
      }
    },
  )
})

describe('one run, several engines', () => {
  test('two engines that advance one run at once run one segment', async () => {
    const effects: Effects = { sent: [], notes: [], searches: [] }
    let turns = 0
    const script = ({ turns: past }: { turns: readonly unknown[] }) => {
      turns += 1
      return past.length === 0 ? { calls: [{ tool: 'crm.note', args: { text: 'once' } }] } : { text: 'done' }
    }
    const a = await world({ database: db.database, script, effects })
    const b = await world({ database: await db.another(), script, effects })
    const run = await a.start()
    await b.engine.wake(run.id)
    await Promise.all([a.engine.settle(), b.engine.settle()])
    expect((await a.run(run.id)).status).toBe('completed')
    expect(effects.notes).toEqual(['once'])
    expect(turns).toBe(2)
  })

  test('an answer given while the segment is parking is not lost', async () => {
    const script = ({ turns }: { turns: readonly unknown[] }) =>
      turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'done' }
    const a = await world({ database: db.database, script })
    for (let round = 0; round < 10; round += 1) {
      const run = await a.start()
      // Polls for the question and answers it at once, while the segment that filed it is still on its way to park.
      const answering = (async () => {
        while ((await a.pending(run.id)).length === 0);
        await a.approve(run.id)
      })()
      await a.engine.settle()
      await answering
      await a.engine.settle()
      expect((await a.run(run.id)).status).toBe('completed')
    }
  })
})
