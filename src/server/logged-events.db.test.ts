import { afterEach, beforeEach, expect, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../test/setup/database.ts'
import { world, type World } from '../../test/setup/world.ts'
import { loggedEvents } from './logged-events.ts'

interface Line {
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

let db: TestDatabase
let lines: Line[]
beforeEach(async () => {
  db = await testDatabase()
  lines = []
})
afterEach(() => db.close())

const observer = loggedEvents({ info: (message, fields) => lines.push({ message, fields: fields ?? {} }) })

/** Never in a line: what the model wrote, what a tool answered, what a person noted. */
const PAYLOADS = ['jo@acme.test', 'canary-subject', 'canary-answer', 'canary-note', 'canary.tool']

async function refusedAndSent(): Promise<World> {
  const w = await world({
    database: db.database,
    observers: [observer],
    rules: [{ name: 'no notes', tools: ['crm.note'], effect: 'deny' }],
    script: ({ turns }) =>
      turns.length === 0
        ? {
            calls: [
              { tool: 'email.send', args: { to: 'jo@acme.test', subject: 'canary-subject' } },
              { tool: 'crm.note', args: { text: 'canary-subject' } },
              { tool: 'canary.tool', args: {} },
            ],
          }
        : { text: 'canary-answer' },
  })
  return w
}

test('one line a decision, a refusal, an answer and the end of a run, with the same names everywhere', async () => {
  const w = await refusedAndSent()
  const run = await w.start()
  await w.engine.settle()
  await w.approve(run.id)
  await w.engine.settle()
  expect((await w.run(run.id)).status).toBe('completed')

  const place = { run: run.id, root: run.id, organization: w.organizationId, agent: 'outreach' }
  const call = (tool: string | null) => ({ ...place, tool })
  const shown = lines.map(({ message, fields }) => ({ message, ...fields }))
  expect(shown).toContainEqual({
    message: 'decided: require_approval',
    event: 'decision',
    ...call('email.send'),
    effect: 'require_approval',
    rule: null,
    stage: 2,
  })
  expect(shown).toContainEqual({
    message: 'decided: deny',
    event: 'decision',
    ...call('crm.note'),
    effect: 'deny',
    rule: 'no notes',
    stage: 2,
  })
  expect(shown).toContainEqual({
    message: 'call refused',
    event: 'call_ended',
    ...call('crm.note'),
    code: 'denied',
    attempt: null,
    replayed: false,
    claim: null,
    ms: expect.any(Number),
  })
  expect(shown).toContainEqual(
    expect.objectContaining({ message: 'call refused', tool: null, code: 'tool_unavailable' }),
  )
  expect(shown).toContainEqual({
    message: 'approval approved',
    event: 'question_answered',
    run: run.id,
    organization: w.organizationId,
    tool: 'email.send',
    state: 'approved',
    ms: expect.any(Number),
  })
  expect(shown.at(-1)).toStrictEqual({
    message: 'run completed',
    event: 'run_ended',
    ...place,
    status: 'completed',
    code: null,
    lane: 'interactive',
    turns: expect.any(Number),
    ms: expect.any(Number),
  })
})

test('a replay and a fault say which attempt and what became of the claim', async () => {
  let fails = true
  const w = await world({
    database: db.database,
    observers: [observer],
    rules: [{ name: 'go', tools: ['email.send'], effect: 'allow' }],
    onSend: async () => {
      if (fails) throw new Error('canary-subject')
    },
  })
  const invocation = await w.invocation()
  const send = () =>
    w.core.invoker.invoke(
      { toolName: 'email.send', args: { to: 'jo@acme.test', subject: 'canary-subject' } },
      invocation,
    )
  await expect(send()).rejects.toThrow('canary-subject')
  fails = false
  await send()
  await send()
  const ended = lines.filter(({ fields }) => fields['event'] === 'call_ended')
  expect(ended).toMatchObject([
    { message: 'call failed', fields: { tool: 'email.send', code: 'Error', attempt: 1, claim: 'release' } },
    { message: 'call replayed', fields: { tool: 'email.send', code: null, replayed: true, claim: null } },
  ])
})

test('no line holds what the model wrote, what a tool answered or what a person noted', async () => {
  const w = await refusedAndSent()
  const run = await w.start('canary-subject')
  await w.engine.settle()
  await w.reject(run.id, 'canary-note')
  await w.engine.settle()
  expect(lines.length).toBeGreaterThan(5)
  const text = JSON.stringify(lines)
  for (const payload of PAYLOADS) expect(text).not.toContain(payload)
})
