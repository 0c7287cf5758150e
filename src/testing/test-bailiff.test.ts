import { expect, test } from 'vitest'
import { z } from 'zod'
import { internalTool } from '../tools/declarations.ts'
import { ok } from '../tools/models.ts'
import { testBailiff } from './test-bailiff.ts'

const note = internalTool({
  name: 'crm.note',
  description: 'Write a note.',
  input: z.object({ text: z.string() }),
  output: z.object({}),
  sideEffects: 'write',
  repeatable: false,
  handler: async () => ok({}),
})

const bailiff = testBailiff({
  tools: [note],
  rules: [
    { name: 'careful', tools: ['crm.note'], when: 'run.tainted', effect: 'require_approval' },
    { name: 'not from the web', tools: ['crm.*'], when: '"web.fetch" in run.taint_sources', effect: 'deny' },
    { name: 'few', tools: ['crm.note'], effect: 'deny', limit: { count: 2, per: 'day' } },
  ],
})

const decide = (more: object = {}) => bailiff.decide({ tool: 'crm.note', args: { text: 'hi' }, ...more })

test('a rule may be tried in a run that is tainted', async () => {
  expect(await decide()).toMatchObject({ decision: 'allow', rule: null })
  expect(await decide({ taintSources: ['mail.read'] })).toMatchObject({
    decision: 'require_approval',
    rule: 'careful',
  })
  expect(await decide({ taintSources: ['mail.read', 'web.fetch'] })).toMatchObject({
    decision: 'deny',
    rule: 'not from the web',
  })
})

test('a rule with a limit may be tried below it and when it is reached', async () => {
  expect(await decide({ used: { few: 1 } })).toMatchObject({ decision: 'allow' })
  expect(await decide({ used: { few: 2 } })).toMatchObject({
    decision: 'deny',
    rule: 'few',
    message: 'the limit of 2 calls a day is reached',
  })
  expect(await decide({ used: { another: 9 } })).toMatchObject({ decision: 'allow' })
})
