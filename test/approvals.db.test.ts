import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AnswerOutcome, ApprovalAnswer } from '../src/approvals/service.ts'
import type { Approval } from '../src/approvals/approval-store.ts'
import type { Script, ScriptedCall } from '../src/testing/script.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, STARTER, world, type World, type WorldOptions } from './setup/world.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
beforeEach(() => empty(db.database))
afterAll(() => db.close())

const send = (to: string): ScriptedCall => ({ tool: 'email.send', args: { to } })
const proposing =
  (...calls: readonly ScriptedCall[]): Script =>
  ({ turns }) =>
    turns.length === 0 ? { calls } : { text: JSON.stringify(turns[0]?.calls.map((call) => call.result)) }

async function held(script: Script, options: Omit<WorldOptions, 'database' | 'script'> = {}) {
  const w = await world({ database: db.database, script, ...options })
  const run = await w.start()
  await w.engine.settle()
  const { items } = await w.core.approvals.list(w.organizationId, { runId: run.id, state: 'pending' })
  return { w, run, questions: items }
}

function answerTo(w: World, question: Approval | undefined, part: Partial<ApprovalAnswer> = {}): ApprovalAnswer {
  if (question === undefined) throw new Error('nothing is held')
  return {
    organizationId: w.organizationId,
    approvalId: question.id,
    argumentsHash: question.argumentsHash,
    decider: { actor: APPROVER, roles: ['approver'] },
    note: null,
    ...part,
  }
}

const sql = (text: string): Promise<void> => db.database.execute(text)
const revoking = (w: World) => ({
  organizationId: w.organizationId,
  definition: 'outreach',
  tool: 'email.send',
  by: STARTER,
})

describe('an answer is checked when it is given', () => {
  test.each<[string, (w: World) => Promise<unknown>, string]>([
    ['the tool has another version', () => sql('UPDATE agent.approvals SET tool_version = 99'), 'tool_changed'],
    [
      'the tool is switched off',
      (w) =>
        w.core.stores.tools.setEnabled({
          organizationId: w.organizationId,
          tool: 'email.send',
          enabled: false,
          by: STARTER,
        }),
      'tool_unavailable',
    ],
    ['the grant is withdrawn', (w) => w.core.stores.grants.revoke(revoking(w)), 'grant_withdrawn'],
    [
      'its connection is no longer connected',
      () =>
        sql(
          "UPDATE agent.approvals SET connection_id = (SELECT id FROM agent.connections); UPDATE agent.connections SET state = 'needs_reauth'",
        ),
      'connection_changed',
    ],
  ])('when %s an approval closes as stale and says why, and the call is decided again', async (_what, move, reason) => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    await move(w)
    expect(await w.core.approvals.approve(answerTo(w, questions[0]))).toEqual({ kind: 'stale', reason })
    expect((await w.core.approvals.get(w.organizationId, questions[0]?.id ?? ''))?.state).toBe('stale')
    await w.engine.settle()
    expect(w.effects.sent).toEqual([])
    // Nothing is left hanging: the run has ended, or waits on a question of its own.
    const after = await w.run(run.id)
    expect(after.status === 'completed' || (await w.pending(run.id)).length === 1).toBe(true)
  })

  test('a rejection needs no live target: it is taken whatever moved', async () => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    await w.core.stores.grants.revoke(revoking(w))
    expect((await w.core.approvals.reject(answerTo(w, questions[0]))).kind).toBe('answered')
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('rejected')
  })

  test('an answer to other arguments, too late, or about a run that ended is refused', async () => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    const wrong = { argumentsHash: '0'.repeat(64) }
    expect((await w.core.approvals.approve(answerTo(w, questions[0], wrong))).kind).toBe('hash_mismatch')
    await sql("UPDATE agent.approvals SET expires_at = now() - interval '1 second'")
    expect((await w.core.approvals.approve(answerTo(w, questions[0]))).kind).toBe('expired')
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('nobody answered')
    expect((await w.core.approvals.approve(answerTo(w, questions[0]))).kind).toBe('already_decided')
  })

  test('whoever started the run does not decide on it, unless the organization says so', async () => {
    const { w, questions } = await held(proposing(send('jo@acme.test')))
    const own = { decider: { actor: STARTER, roles: ['owner'] } }
    const refused: AnswerOutcome = { kind: 'not_allowed', reason: 'own_run' }
    expect(await w.core.approvals.approve(answerTo(w, questions[0], own))).toEqual(refused)
    await w.core.stores.organizations.configure(w.organizationId, { selfApproval: true })
    expect((await w.core.approvals.approve(answerTo(w, questions[0], own))).kind).toBe('answered')
  })

  test('a rule that names approvers is answered by them, by id or by role, and by nobody else', async () => {
    const rules = [
      { name: 'finance', tools: ['email.send'], effect: 'require_approval', approvers: ['finance'] },
    ] as const
    const { w, questions } = await held(proposing(send('jo@acme.test'), send('sam@acme.test')), { rules })
    const refused: AnswerOutcome = { kind: 'not_allowed', reason: 'not_an_approver' }
    expect(await w.core.approvals.approve(answerTo(w, questions[0]))).toEqual(refused)
    const finance = { decider: { actor: APPROVER, roles: ['finance'] } }
    expect((await w.core.approvals.approve(answerTo(w, questions[0], finance))).kind).toBe('answered')
  })
})

describe('what still applies after an approval', () => {
  test('R06 a rule that was added while a person thought still denies', async () => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    expect((await w.core.approvals.approve(answerTo(w, questions[0]))).kind).toBe('answered')
    const rule = {
      name: 'stop',
      tools: ['email.send'],
      when: null,
      effect: 'deny',
      mode: 'enforce',
      approvers: [],
      ttlS: null,
      limit: null,
    } as const
    await w.core.stores.rules.save({ organizationId: w.organizationId, by: STARTER, id: w.core.newId(), rule })
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('denied')
    expect(w.effects.sent).toEqual([])
  })

  test('a connection that broke meanwhile answers its stable code, and leaves no claim', async () => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    await w.core.approvals.approve(answerTo(w, questions[0]))
    await sql("UPDATE agent.connections SET state = 'needs_reauth'")
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('connection_expired')
    const { rows } = await db.database.query({ name: '', text: 'SELECT 1 FROM agent.idempotency_keys' })
    expect(rows).toEqual([])
    expect(w.effects.sent).toEqual([])
  })

  test('a tool that was switched off meanwhile is not run', async () => {
    const { w, run, questions } = await held(proposing(send('jo@acme.test')))
    await w.core.approvals.approve(answerTo(w, questions[0]))
    await w.core.stores.tools.setEnabled({
      organizationId: w.organizationId,
      tool: 'email.send',
      enabled: false,
      by: STARTER,
    })
    await w.engine.settle()
    expect((await w.run(run.id)).output).toContain('tool_unavailable')
    expect(w.effects.sent).toEqual([])
  })
})

describe('several questions of one turn', () => {
  const three = proposing(send('a@x.test'), send('b@x.test'), send('c@x.test'))

  test('are answered in any order, the last one first, and each answer reaches its own call', async () => {
    const { w, run, questions } = await held(three)
    const [first, second, third] = questions
    await w.core.approvals.reject(answerTo(w, third, { note: 'not c' }))
    await w.engine.settle()
    expect((await w.run(run.id)).status).toBe('parked')
    await w.core.approvals.approve(answerTo(w, first))
    await w.engine.settle()
    expect(w.effects.sent.map(({ to }) => to)).toEqual(['a@x.test'])
    await sql(`UPDATE agent.approvals SET expires_at = now() - interval '1 second' WHERE id = '${second?.id}'`)
    await w.engine.sweep()
    await w.engine.settle()
    const { status, output } = await w.run(run.id)
    expect(status).toBe('completed')
    expect(JSON.parse(output as string)).toMatchObject([
      { ok: true },
      { ok: false, error: { code: 'rejected', message: expect.stringContaining('nobody answered') as string } },
      { ok: false, error: { code: 'rejected', message: expect.stringContaining('not c') as string } },
    ])
    expect(w.effects.sent).toHaveLength(1)
  })

  test('a rejection that stops the run closes the others, and none of them runs', async () => {
    const { w, run, questions } = await held(three)
    await w.core.approvals.approve(answerTo(w, questions[0]))
    await w.core.approvals.reject(answerTo(w, questions[1], { stopRun: true, note: 'wrong list' }))
    await w.engine.settle()
    expect(await w.run(run.id)).toMatchObject({ status: 'cancelled', message: 'wrong list' })
    const { items } = await w.core.approvals.list(w.organizationId, { runId: run.id })
    expect(items.map(({ state }) => state)).toEqual(['approved', 'rejected', 'cancelled'])
    expect(w.effects.sent).toEqual([])
  })
})
