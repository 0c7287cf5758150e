import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import type { Instrument } from '../src/core.ts'
import type { NewRun, RunRow } from '../src/runs/run-store.ts'
import type { ChildStore } from '../src/runs/workflow/child-store.ts'
import { agent, expr, map, parallel, sequence, tool, waitForSignal } from '../src/runs/workflow/index.ts'
import type { Script } from '../src/testing/script.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { STARTER, type WorldOptions } from './setup/world.ts'
import { workflowScene, type WorkflowScene } from './workflow-scene.ts'

let db: TestDatabase
let scene: WorkflowScene

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(() => empty(db.database))

const HELD = { name: 'sends wait', tools: ['email.send'], effect: 'require_approval' } as const
const note = (id: string, text: string) => tool(id, { tool: 'crm.note', args: { text: expr(text) } })

/** An agent that writes one note with what it was given, and says so. */
const noting: Script = ({ input, turns }) =>
  turns.length === 0 ? { calls: [{ tool: 'crm.note', args: { text: input } }] } : { text: `noted ${input}` }

async function open(options: Omit<WorldOptions, 'database'> = {}): Promise<WorkflowScene> {
  scene = await workflowScene({ database: db.database, script: noting, ...options })
  return scene
}

async function children(run: RunRow): Promise<readonly RunRow[]> {
  const { items } = await scene.runtime.runs.list(scene.organizationId, { limit: 50 })
  return items.filter(({ parentRunId }) => parentRunId === run.id)
}

describe('an agent node', () => {
  test('is a run of its own: the workflow waits for it, and its output is the node’s', async () => {
    await open()
    await scene.publish(
      sequence('main', [
        agent('write', { definition: 'outreach', input: expr('input') }),
        note('after', 'steps.write.output'),
      ]),
    )
    const run = await scene.play('Jo')
    expect(run).toMatchObject({ status: 'completed', toolCalls: 2 })
    expect(scene.effects.notes).toEqual(['Jo', 'noted Jo'])
    const [child] = await children(run)
    expect(child).toMatchObject({
      status: 'completed',
      rootRunId: run.id,
      parentStep: 'write',
      kind: 'agent',
      source: 'api',
    })
    expect(child?.snapshot.principal.startedBy).toEqual(STARTER)
    expect(child?.deadline.getTime()).toBeLessThanOrEqual(run.deadline.getTime())
  })

  test('may start another workflow, and a map one for each item', async () => {
    await open()
    await scene.publish(note('write', '"for " + input'), { slug: 'inner' })
    const each = map('each', {
      over: 'input',
      as: 'x',
      node: agent('one', { definition: 'inner', input: expr('x') }),
      fanoutConcurrency: 2,
      maxItems: 9,
    })
    await scene.publish(each, { output: expr('size(steps.each.output)') })
    const run = await scene.play(['a', 'b', 'c'])
    expect(run).toMatchObject({ status: 'completed', output: 3, toolCalls: 3 })
    expect(scene.effects.notes.toSorted()).toEqual(['for a', 'for b', 'for c'])
    expect((await children(run)).map(({ parentStep }) => parentStep ?? '').toSorted()).toEqual([
      'each[0].one',
      'each[1].one',
      'each[2].one',
    ])
  })

  test('hangs with its whole tree under its node', async () => {
    await open()
    await scene.publish(agent('write', { definition: 'outreach', input: 'x' }))
    const run = await scene.play()
    await scene.core.ledger.flush()
    const below = await scene.core.stores.children.below(scene.organizationId, run.id)
    const spans = await scene.core.stores.spans.tree(scene.organizationId, run.id, below)
    const nameOf = new Map(spans.map(({ id, name }) => [id, name]))
    expect(spans.map(({ kind, parentId, name }) => [kind, name, nameOf.get(parentId ?? '') ?? null])).toEqual(
      expect.arrayContaining([
        ['run', 'flow', null],
        ['node', 'write', 'flow'],
        ['run', 'outreach', 'write'],
        ['tool', 'crm.note', 'scripted/test'],
      ]),
    )
  })

  test('of a child that fails or is refused fails with it; one that is cut short is done as far as it came', async () => {
    await open({ script: () => ({ fail: new Error('down'), failTimes: 9, text: 'never' }) })
    await scene.publish(agent('write', { definition: 'outreach', input: 'x' }))
    const run = await scene.play()
    for (let tries = 0; tries < 4; tries += 1) {
      await db.database.execute("UPDATE agent.runs SET wake_at = NULL WHERE status = 'queued'")
      await scene.engine.sweep()
      await scene.engine.settle()
    }
    expect(await scene.run(run.id)).toMatchObject({ status: 'failed', reason: 'child_failed' })

    await scene.publish(sequence('main', [note('one', '"1"'), note('two', '"2"')]), {
      slug: 'inner',
      ceilings: { maxToolCalls: 1 },
      output: expr('steps.one.output.id'),
    })
    await scene.publish(
      sequence('main', [agent('inside', { definition: 'inner', input: null }), note('after', 'steps.inside.output')]),
    )
    expect(await scene.play()).toMatchObject({ status: 'partial', reason: 'step_partial' })
    expect(scene.effects.notes).toEqual(['1', 'n1'])
  })

  test('gives its run what is left of calls, the same cost ceiling, and no right that the workflow has lost', async () => {
    await open({ agentTools: ['crm.note', 'crm.search', 'email.send'] })
    await scene.publish(
      sequence('main', [note('a', '"1"'), note('b', '"2"'), agent('write', { definition: 'outreach', input: 'x' })]),
      { ceilings: { maxToolCalls: 5 } },
    )
    await scene.core.stores.grants.revoke({
      organizationId: scene.organizationId,
      definition: 'flow',
      tool: 'email.send',
      by: STARTER,
    })
    const run = await scene.play()
    const [child] = await children(run)
    expect(child?.snapshot.ceilings).toMatchObject({ maxToolCalls: 3, maxTurns: DEFAULT_CEILINGS.maxTurns })
    expect(child?.snapshot.principal).toMatchObject({ agent: 'outreach', scopes: ['crm.note', 'crm.search'] })
  })
})

test('a run hears of its child’s end by its own row, also when nobody is left to wake it', async () => {
  await open()
  await scene.publish(agent('write', { definition: 'outreach', input: 'x' }))
  const { id } = await scene.runtime.runs.start({
    organizationId: scene.organizationId,
    definition: 'flow',
    input: null,
    startedBy: STARTER,
    source: 'api',
  })
  await scene.engine.settle()
  // As it was before the child ended; a wake-up that came to nothing leaves what the end of the child wrote.
  await db.database.query(
    {
      name: '',
      text: "UPDATE agent.runs SET status = 'parked', ended_at = NULL, output = NULL, wake_at = now() + interval '1 day' WHERE id = $1",
    },
    [id],
  )
  await db.database.execute(
    "UPDATE agent.run_steps SET state = 'waiting', ended_at = NULL, wait = jsonb_build_object('kind', 'child', 'runId', child_run_id, 'until', '2999-01-01T00:00:00Z') WHERE kind = 'agent'",
  )
  const child = (await children(await scene.run(id)))[0]
  await db.database.query(
    { name: '', text: "UPDATE agent.runs SET status = 'queued', ended_at = NULL WHERE id = $1" },
    [child?.id ?? ''],
  )
  const ended = await scene.core.stores.runs.fail(child?.id ?? '', {
    status: 'completed',
    reason: null,
    message: null,
    output: 'again',
  })
  expect(ended?.parentRunId).toBe(id)
  await scene.engine.sweep()
  expect(await scene.goOn(id)).toMatchObject({ status: 'completed', output: 'again' })
})

describe('a child that waits for a person', () => {
  const sending: Script = ({ turns }) =>
    turns.length === 0 ? { calls: [{ tool: 'email.send', args: { to: 'jo@acme.test' } }] } : { text: 'sent' }

  beforeEach(async () => {
    await open({ script: sending, rules: [HELD] })
    await scene.publish(
      sequence('main', [agent('send', { definition: 'outreach', input: 'x' }), note('after', 'steps.send.output')]),
    )
  })

  test('is answered under its own name, and both runs go on', async () => {
    const run = await scene.play()
    const [child] = await children(run)
    expect([run.status, child?.status]).toEqual(['parked', 'parked'])
    await scene.approve(child?.id ?? '')
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects).toMatchObject({ sent: [{ to: 'jo@acme.test' }], notes: ['sent'] })
  })

  test('T69 is cancelled with the run that started it, and nothing was sent', async () => {
    const run = await scene.play()
    const [child] = await children(run)
    const { organizationId } = scene
    await scene.runtime.runs.cancel({ organizationId, runId: run.id, reason: 'enough', by: STARTER })
    await scene.engine.settle()
    expect(await scene.run(run.id)).toMatchObject({ status: 'cancelled', message: 'enough' })
    expect(await scene.run(child?.id ?? '')).toMatchObject({ status: 'cancelled', message: 'enough' })
    expect(scene.effects).toMatchObject({ sent: [], notes: [] })
    expect(await scene.pending(child?.id ?? '')).toEqual([])
    const { rows } = await db.database.query<{ n: number }>({
      name: '',
      text: `SELECT count(*)::int AS n FROM agent.idempotency_keys WHERE response::text LIKE '%parent_cancelled%'`,
    })
    expect(rows[0]?.n).toBe(0)
  })

  test('does not outlive a run that ends without it', async () => {
    await scene.publish(
      parallel('both', [
        agent('send', { definition: 'outreach', input: 'x' }),
        waitForSignal('w', { name: 'go', timeoutS: 60 }),
      ]),
      {
        ceilings: { maxDurationS: 50 },
      },
    )
    const run = await scene.play()
    const [child] = await children(run)
    await db.database.execute(
      "UPDATE agent.runs SET deadline = now() - interval '1 second', wake_at = now() WHERE parent_run_id IS NULL",
    )
    await scene.engine.sweep()
    await scene.engine.settle()
    expect(await scene.run(run.id)).toMatchObject({ status: 'partial', reason: 'max_duration' })
    await scene.engine.sweep()
    await scene.engine.settle()
    expect(await scene.run(child?.id ?? '')).toMatchObject({ status: 'cancelled' })
  })
})

test('T69 a run that was told to stop starts no other: the code fails the node and stands in no tool result', async () => {
  // The cancel comes between the boundary of the node and the start of its run.
  const cancelled = async (child: NewRun): Promise<void> => {
    const { organizationId } = scene
    await scene.runtime.runs.cancel({ organizationId, runId: child.parent?.runId ?? '', reason: null, by: STARTER })
  }
  const instrument: Instrument = (port, implementation) => {
    if (port !== 'children') return implementation
    const store = implementation as unknown as ChildStore
    return { ...store, start: (child: NewRun) => cancelled(child).then(() => store.start(child)) } as never
  }
  await open({ instrument })
  await scene.publish(agent('write', { definition: 'outreach', input: 'x' }))
  const run = await scene.play()
  expect(run).toMatchObject({ status: 'cancelled' })
  expect(await children(run)).toEqual([])
  expect(await scene.steps(run.id)).toMatchObject({ write: { state: 'failed', error: { code: 'parent_cancelled' } } })
  expect(scene.effects.notes).toEqual([])
})
