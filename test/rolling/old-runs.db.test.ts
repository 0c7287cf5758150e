import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Script } from '../../src/testing/script.ts'
import { internalTool, type ToolDeclaration } from '../../src/tools/declarations.ts'
import { ok } from '../../src/tools/models.ts'
import { testDatabase, type TestDatabase } from '../setup/database.ts'
import { STARTER, world, type World } from '../setup/world.ts'

let db: TestDatabase
let filed: string[]
beforeEach(async () => {
  db = await testDatabase()
  filed = []
})
afterEach(() => db.close())

/** The same tool in two builds: the later one asks for a reason beside the title. */
const reports: Readonly<Record<'old' | 'new', ToolDeclaration>> = {
  old: internalTool({
    name: 'report.file',
    description: 'File a report.',
    input: z.object({ title: z.string() }),
    output: z.object({ filed: z.string() }),
    sideEffects: 'write',
    repeatable: false,
    handler: async (_invocation, { title }) => (filed.push(`old ${title}`), ok({ filed: title })),
  }),
  new: internalTool({
    name: 'report.file',
    description: 'File a report.',
    input: z.object({ title: z.string(), reason: z.string() }),
    output: z.object({ filed: z.string() }),
    sideEffects: 'write',
    repeatable: false,
    handler: async (_invocation, { title, reason }) => (filed.push(`new ${title} ${reason}`), ok({ filed: title })),
  }),
}

/** Sends a mail, which waits for a person, and files a report after it. */
const mailThenReport: Script = ({ turns }) => {
  if (turns.length === 0) return { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] }
  if (turns.length === 1) return { calls: [{ tool: 'report.file', args: { title: 'q3' } }] }
  return { text: 'done' }
}

function build(version: 'old' | 'new', effects?: World['effects']): Promise<World> {
  return world({
    database: db.database,
    script: mailThenReport,
    extraTools: [reports[version]],
    ...(effects === undefined ? {} : { effects }),
  })
}

describe('while two builds share a database', () => {
  test('a run of the old build goes on in the new one as far as its contracts still hold', async () => {
    const old = await build('old')
    const run = await old.start()
    await old.engine.settle()
    expect((await old.run(run.id)).status).toBe('parked')

    const next = await build('new', old.effects)
    await next.approve(run.id)
    await next.engine.settle()
    // The mail is the same tool in both; the report is not what the run was shown.
    expect(next.effects.sent).toHaveLength(1)
    expect(filed).toStrictEqual([])
    const ended = await next.run(run.id)
    expect(ended.status).toBe('completed')
    const report = (await next.spans(run.id)).find((span) => span.name === 'report.file')
    expect(report).toMatchObject({ status: 'error', code: 'tool_changed' })
    // Contracts are looked up in the snapshot for as long as the run lasts.
    expect(ended.snapshot.contracts['report.file']).toStrictEqual(run.snapshot.contracts['report.file'])
  })

  test('a run of the old build that the old process still drives keeps its tool', async () => {
    const old = await build('old')
    const run = await old.start()
    await old.engine.settle()
    await build('new')
    await old.approve(run.id)
    await old.engine.settle()
    expect((await old.run(run.id)).status).toBe('completed')
    expect(filed).toStrictEqual(['old q3'])
  })

  test('an approval of a call whose contract changed goes stale instead of running something else', async () => {
    const held = await world({
      database: db.database,
      script: ({ turns }) =>
        turns.length === 0 ? { calls: [{ tool: 'report.file', args: { title: 'q3' } }] } : { text: 'done' },
      extraTools: [reports.old],
      rules: [{ name: 'ask', tools: ['report.file'], effect: 'require_approval' }],
    })
    const run = await held.start()
    await held.engine.settle()
    const [question] = await held.pending(run.id)
    const next = await world({
      database: db.database,
      script: () => ({ text: 'done' }),
      extraTools: [reports.new],
      rules: [{ name: 'ask', tools: ['report.file'], effect: 'require_approval' }],
    })
    const outcome = await next.core.approvals.approve({
      organizationId: next.organizationId,
      approvalId: question?.id ?? '',
      argumentsHash: question?.argumentsHash ?? '',
      decider: { actor: { kind: 'user', id: crypto.randomUUID(), name: 'Ben' }, roles: ['approver'] },
      note: null,
    })
    expect(outcome).toMatchObject({ kind: 'stale' })
    await next.engine.settle()
    expect(filed).toStrictEqual([])
  })

  test('a new version of a definition is for new runs; an old run keeps instructions, model and ceilings', async () => {
    const old = await build('old')
    const run = await old.start()
    await old.engine.settle()
    const next = await build('new')
    await next.runtime.runs.publish(
      next.organizationId,
      {
        slug: 'outreach',
        instructions: 'Write to nobody.',
        tools: ['crm.search'],
        model: null,
        ceilings: { ...run.snapshot.ceilings, maxTurns: 1 },
      },
      STARTER,
    )
    const fresh = await next.start()
    expect(fresh.snapshot).toMatchObject({ instructions: 'Write to nobody.', ceilings: { maxTurns: 1 } })
    await next.approve(run.id)
    await next.engine.settle()
    expect((await next.run(run.id)).snapshot).toStrictEqual(run.snapshot)
    expect(await next.run(run.id)).toMatchObject({ status: 'completed', turns: 3 })
  })
})
