import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { branch, end, expr, map, parallel, sequence, tool } from '../src/runs/workflow/index.ts'
import { internalTool } from '../src/tools/declarations.ts'
import { NotFoundError } from '../src/tools/errors.ts'
import { ok } from '../src/tools/models.ts'
import { SegmentLost } from '../src/runs/run-store.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, STARTER } from './setup/world.ts'
import { workflowScene, type WorkflowScene } from './workflow-scene.ts'

let db: TestDatabase
let scene: WorkflowScene

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  scene = await workflowScene({ database: db.database })
})

const LANE = () => ({ organizationId: scene.organizationId, lane: 'interactive' }) as const
const HELD = { name: 'sends wait', tools: ['email.send'], effect: 'require_approval' } as const

const send = (id: string, to: string) => tool(id, { tool: 'email.send', args: { to: expr(to) } })
const note = (id: string, text: string) => tool(id, { tool: 'crm.note', args: { text: expr(text) } })

const fails = internalTool({
  name: 'test.fail',
  description: 'Fail as told.',
  input: z.object({ how: z.string() }),
  output: z.object({}),
  sideEffects: 'read',
  handler: async (_invocation, { how }) => {
    if (how === 'not_found') throw new NotFoundError('there is no such thing')
    if (how === 'fault') throw new Error('the database is gone')
    return ok({})
  },
})

describe('a workflow', () => {
  test('runs its tools in order, and answers what its output says', async () => {
    await scene.publish(
      sequence('main', [
        tool('find', { tool: 'crm.search', args: { query: expr('input.name') } }),
        note('write', '"found " + steps.find.output[0].id'),
      ]),
      { output: { person: expr('steps.find.output[0].id'), note: expr('steps.write.output.id'), literal: 1 } },
    )
    const run = await scene.play({ name: 'Jo' })
    expect(run).toMatchObject({ status: 'completed', output: { person: 'p1', note: 'n1', literal: 1 }, toolCalls: 2 })
    expect(scene.effects).toMatchObject({ searches: ['Jo'], notes: ['found p1'] })
  })

  test('answers what its last node answers when it says nothing about it', async () => {
    await scene.publish(
      parallel('both', [note('a', '"one"'), sequence('s', [note('b', '"two"'), note('c', '"three"')])]),
    )
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'completed', output: [{ id: expect.any(String) }, { id: expect.any(String) }] })
    expect(scene.effects.notes.toSorted()).toEqual(['one', 'three', 'two'])
  })

  test('takes one side of a branch, and what was not run has no value', async () => {
    await scene.publish(
      sequence('main', [
        branch('way', { when: 'size(input) > 3', yes: note('long', 'input'), no: note('short', 'input') }),
        note('after', 'has(steps.short) ? "short" : "long"'),
      ]),
    )
    await scene.play('abc')
    expect(scene.effects.notes).toEqual(['abc', 'short'])
    await scene.play('abcd')
    expect(scene.effects.notes).toEqual(['abc', 'short', 'abcd', 'long'])
  })

  test('goes over a list that an expression pruned, and over the list of each item', async () => {
    const inner = map('inner', {
      over: 'company.people',
      as: 'person',
      node: note('write', 'company.name + "/" + person'),
      fanoutConcurrency: 2,
      maxItems: 10,
    })
    await scene.publish(
      map('outer', {
        over: 'input.filter(c, c.size > 1.0)',
        as: 'company',
        node: inner,
        fanoutConcurrency: 1,
        maxItems: 10,
      }),
      { output: expr('steps.outer.output.map(list, size(list))') },
    )
    const company = (name: string, people: string[]) => ({ name, people, size: people.length })
    const run = await scene.play([company('a', ['1', '2']), company('b', ['3']), company('c', ['4', '5', '6'])])
    expect(run).toMatchObject({ status: 'completed', output: [2, 3] })
    expect(scene.effects.notes.toSorted()).toEqual(['a/1', 'a/2', 'c/4', 'c/5', 'c/6'])
    expect(Object.keys(await scene.steps(run.id))).toContain('outer[1].inner[2].write')
  })

  test('ends where an end says so, with the reason it gives', async () => {
    const stop = branch('way', { when: 'input == "stop"', yes: end('enough', 'nothing_to_do') })
    await scene.publish(sequence('main', [note('first', '"1"'), stop, note('last', '"2"')]))
    expect(await scene.play('stop')).toMatchObject({ status: 'partial', reason: 'nothing_to_do' })
    expect(scene.effects.notes).toEqual(['1'])
    expect(await scene.play('go')).toMatchObject({ status: 'completed' })
  })

  test('goes on as it was published when its run started', async () => {
    scene = await workflowScene({ database: db.database, rules: [HELD] })
    await scene.publish(sequence('main', [send('mail', '"jo@acme.test"'), note('old', '"old"')]))
    const run = await scene.play()
    await scene.publish(sequence('main', [send('mail', '"jo@acme.test"'), note('new', '"new"')]))
    await scene.approve(run.id)
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.notes).toEqual(['old'])
  })

  test('stands in the run tree: the run, its nodes, the items of its maps, and their calls', async () => {
    const each = map('each', { over: 'input', as: 'x', node: note('write', 'x'), fanoutConcurrency: 2, maxItems: 5 })
    await scene.publish(sequence('main', [each, tool('find', { tool: 'crm.search', args: { query: 'q' } })]))
    const run = await scene.play(['a', 'b'])
    await scene.core.ledger.flush()
    const spans = await scene.core.stores.spans.tree(scene.organizationId, run.id)
    const nameOf = new Map(spans.map(({ id, name }) => [id, name]))
    const tree = spans.map(({ kind, name, parentId, status }) =>
      [kind, name, nameOf.get(parentId ?? '') ?? 'nothing', status].join(' '),
    )
    expect(tree.toSorted()).toEqual(
      [
        'run flow nothing ok',
        'node main flow ok',
        'node each main ok',
        'node each[0].write each ok',
        'node each[1].write each ok',
        'tool crm.note each[0].write ok',
        'tool crm.note each[1].write ok',
        'node find main ok',
        'tool crm.search find ok',
      ].toSorted(),
    )
  })
})

describe('a step that fails', () => {
  beforeEach(async () => {
    scene = await workflowScene({ database: db.database, extraTools: [fails], agentTools: ['crm.note'] })
  })
  const fail = (how: string, more: { continueOnError?: boolean } = {}) =>
    tool('bad', { tool: 'test.fail', args: { how }, ...more })

  test('fails the run under its code, and nothing behind it runs', async () => {
    await scene.publish(sequence('main', [fail('not_found'), note('behind', '"x"')]))
    expect(await scene.play()).toMatchObject({
      status: 'failed',
      reason: 'not_found',
      message: 'step bad: there is no such thing',
    })
    expect(scene.effects.notes).toEqual([])
  })

  test('is left behind where its node says so: the run ends partial, and the others can read what became of it', async () => {
    await scene.publish(
      sequence('main', [fail('not_found', { continueOnError: true }), note('behind', 'steps.bad.error.code')]),
    )
    expect(await scene.play()).toMatchObject({ status: 'partial', reason: 'step_failed', output: { id: 'n1' } })
    expect(scene.effects.notes).toEqual(['not_found'])
  })

  test('keeps no other branch or item from its end', async () => {
    const one = branch('way', { when: 'x == 1.0', yes: fail('not_found'), no: note('good', '"item " + x.name') })
    const each = map('each', { over: 'input', as: 'x', node: one, fanoutConcurrency: 1, maxItems: 5 })
    await scene.publish(each)
    const run = await scene.play([1, 2])
    // The second item reads a field that a number has not.
    expect(run).toMatchObject({ status: 'failed', reason: 'not_found' })
    expect(await scene.steps(run.id)).toMatchObject({
      'each[0].bad': { state: 'failed' },
      'each[1].good': { state: 'failed', error: { code: 'expression_failed' } },
    })
  })

  test('by a right that is withdrawn is denied like any other call', async () => {
    await scene.publish(sequence('main', [note('a', '"x"')]))
    await scene.core.stores.grants.revoke({
      organizationId: scene.organizationId,
      definition: 'flow',
      tool: 'crm.note',
      by: STARTER,
    })
    expect(await scene.play()).toMatchObject({ status: 'failed', reason: 'denied' })
  })

  test('by a fault of the platform gives the run back for another try, without its siblings being made again', async () => {
    await scene.publish(parallel('both', [fail('fault'), note('good', '"once"')]))
    const run = await scene.play()
    expect(run.status).toBe('queued')
    await db.database.execute('UPDATE agent.runs SET wake_at = NULL')
    await scene.engine.sweep()
    await scene.goOn(run.id)
    expect(scene.effects.notes).toEqual(['once'])
    expect(await scene.steps(run.id)).toMatchObject({ bad: { attempt: 2 }, good: { state: 'completed', attempt: 1 } })
  })
})

describe('equal calls', () => {
  test('of one node are one effect, whatever number of items make them; two nodes separate them', async () => {
    const each = map('each', {
      over: 'input',
      as: 'x',
      node: note('write', '"same"'),
      fanoutConcurrency: 4,
      maxItems: 9,
    })
    await scene.publish(sequence('main', [each, note('again', '"same"')]), { output: expr('steps.each.output') })
    const run = await scene.play([1, 2, 3, 4, 5])
    expect(run).toMatchObject({ status: 'completed', output: Array.from({ length: 5 }, () => ({ id: 'n1' })) })
    expect(scene.effects.notes).toEqual(['same', 'same'])
  })
})

describe('a call that needs a person', () => {
  test('T12 waits while its siblings go on; the answer wakes the run and the approved call runs once', async () => {
    scene = await workflowScene({ database: db.database, rules: [HELD] })
    await scene.publish(
      sequence('main', [
        parallel('both', [send('mail', '"jo@acme.test"'), sequence('s', [note('a', '"1"'), note('b', '"2"')])]),
        note('after', 'steps.mail.output.accepted'),
      ]),
    )
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'parked' })
    expect(scene.effects).toMatchObject({ notes: ['1', '2'], sent: [] })
    expect(await scene.pending(run.id)).toMatchObject([
      { tool: 'email.send', preview: 'Email "hello" to jo@acme.test' },
    ])
    expect(await scene.steps(run.id)).toMatchObject({ mail: { state: 'waiting' } })
    await scene.approve(run.id)
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed', toolCalls: 4 })
    expect(scene.effects).toMatchObject({ sent: [{ to: 'jo@acme.test' }], notes: ['1', '2', 'jo@acme.test'] })
  })

  test('and is refused fails its node with the answer', async () => {
    scene = await workflowScene({ database: db.database, rules: [HELD] })
    await scene.publish(
      sequence('main', [
        { ...send('mail', '"jo@acme.test"'), continueOnError: true },
        note('after', 'steps.mail.error.code'),
      ]),
    )
    const run = await scene.play()
    await scene.reject(run.id, 'not now')
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'partial', reason: 'step_failed' })
    expect(scene.effects).toMatchObject({ sent: [], notes: ['rejected'] })
  })

  test('may be a read, which waits like every other', async () => {
    const rules = [{ name: 'ask', tools: ['crm.search'], effect: 'require_approval' as const }]
    scene = await workflowScene({ database: db.database, rules })
    await scene.publish(tool('find', { tool: 'crm.search', args: { query: 'jo' } }))
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'parked' })
    await scene.approve(run.id)
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
    expect(scene.effects.searches).toEqual(['jo'])
  })

  test('is asked about once for every item, and each answer lets its own item go on', async () => {
    scene = await workflowScene({ database: db.database, rules: [HELD] })
    const item = sequence('item', [send('mail', 'x'), note('after', 'x')])
    await scene.publish(map('each', { over: 'input', as: 'x', node: item, fanoutConcurrency: 2, maxItems: 9 }))
    const people = ['a@acme.test', 'b@acme.test', 'c@acme.test', 'd@acme.test']
    const run = await scene.play(people)
    const asked = await scene.pending(run.id)
    expect(asked).toHaveLength(4)
    for (const [index, { id, argumentsHash }] of asked.entries()) {
      const answer = { organizationId: scene.organizationId, approvalId: id, argumentsHash, note: null }
      await scene.core.approvals[index === 1 ? 'reject' : 'approve']({
        ...answer,
        decider: { actor: APPROVER, roles: [] },
      })
      await scene.engine.settle()
    }
    expect(await scene.run(run.id)).toMatchObject({ status: 'failed', reason: 'rejected' })
    expect(scene.effects.sent).toHaveLength(3)
    expect(scene.effects.notes.toSorted()).toEqual(scene.effects.sent.map(({ to }) => to).toSorted())
    expect(new Set(scene.effects.notes).size).toBe(3)
  })
})

describe('a ceiling', () => {
  test('on tool calls lets what has begun come to its end, and the run ends partial with what it has', async () => {
    await scene.publish(sequence('main', [note('a', '"1"'), note('b', '"2"'), note('c', '"3"')]), {
      ceilings: { maxToolCalls: 2 },
      output: { first: expr('steps.a.output.id'), last: expr('steps.c.output.id') },
    })
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'partial', reason: 'max_tool_calls', output: { first: 'n1', last: null } })
    expect(scene.effects.notes).toEqual(['1', '2'])
  })

  test('on tool calls does not take an answer from a person who is still being asked', async () => {
    scene = await workflowScene({ database: db.database, rules: [HELD] })
    await scene.publish(parallel('both', [send('mail', '"jo@acme.test"'), note('a', '"1"'), note('b', '"2"')]), {
      ceilings: { maxToolCalls: 2 },
    })
    const run = await scene.play()
    expect(run).toMatchObject({ status: 'parked' })
    await scene.approve(run.id)
    expect(await scene.goOn(run.id)).toMatchObject({ status: 'partial', reason: 'max_tool_calls' })
    expect(scene.effects).toMatchObject({ sent: [{ to: 'jo@acme.test' }], notes: ['1'] })
  })
})

test('a segment that has lost its run writes no step and takes no signal', async () => {
  scene = await workflowScene({ database: db.database, rules: [HELD] })
  await scene.publish(send('mail', '"jo@acme.test"'))
  const run = await scene.play()
  const { steps, signals } = scene.core.stores
  const use = { turns: 0, toolCalls: 0, elapsedS: 0, spentCents: 0 }
  const lost = { id: scene.core.newId(), run, saved: null, use, approvals: [], abandoned: 0 }
  await scene.runtime.runs.signal({
    organizationId: scene.organizationId,
    runId: run.id,
    name: 'go',
    payload: 1,
    by: STARTER,
  })
  const { steps: rows } = await steps.load(lost)
  const change = rows.map((row) => ({ ...row, state: 'completed' as const, spanId: run.id, parentSpanId: run.id }))
  await expect(steps.record(lost, change, 9)).rejects.toThrow(SegmentLost)
  await expect(signals.take(lost, 'go', 'w')).rejects.toThrow(SegmentLost)
  expect(await scene.steps(run.id)).toMatchObject({ mail: { state: 'waiting' } })
  expect(await scene.run(run.id)).toMatchObject({ toolCalls: 1 })
  const { rows: open } = await db.database.query({
    name: '',
    text: 'SELECT FROM agent.run_signals WHERE consumed_by IS NULL',
  })
  expect(open).toHaveLength(1)
})

test('a paused lane stops a workflow between two nodes, and it goes on from there', async () => {
  scene = await workflowScene({
    database: db.database,
    onSend: async () => void (await scene.runtime.lanes.pause(LANE(), STARTER)),
  })
  await scene.publish(sequence('main', [send('mail', '"jo@acme.test"'), note('after', '"x"')]))
  const run = await scene.play()
  expect(run).toMatchObject({ status: 'queued' })
  expect(scene.effects).toMatchObject({ sent: [{ to: 'jo@acme.test' }], notes: [] })
  await scene.runtime.lanes.resume(LANE())
  expect(await scene.goOn(run.id)).toMatchObject({ status: 'completed' })
  expect(scene.effects).toMatchObject({ sent: [{ to: 'jo@acme.test' }], notes: ['x'] })
})

test('a cancel stops a workflow at its next node, and no question outlives it', async () => {
  scene = await workflowScene({ database: db.database, rules: [HELD] })
  await scene.publish(sequence('main', [send('mail', '"jo@acme.test"'), note('after', '"x"')]))
  const run = await scene.play()
  const { organizationId } = scene
  await scene.runtime.runs.cancel({ organizationId, runId: run.id, reason: 'changed my mind', by: STARTER })
  expect(await scene.goOn(run.id)).toMatchObject({ status: 'cancelled', message: 'changed my mind' })
  expect(await scene.pending(run.id)).toEqual([])
  expect(await scene.steps(run.id)).toMatchObject({ mail: { state: 'skipped' } })
  expect(scene.effects).toMatchObject({ sent: [], notes: [] })
})
