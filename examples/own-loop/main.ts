// Your own AI SDK loop, governed: the mail waits for a person, is sent once, and the model hears what really happened.
import assert from 'node:assert/strict'
import { generateText } from 'ai'
import { createBailiff, internalTool, ok } from 'bailiff'
import { governed } from 'bailiff/ai-sdk'
import { pgliteDatabase } from 'bailiff/pglite'
import { scriptedModel } from 'bailiff/testing'
import { z } from 'zod'

const sent: string[] = []
const bailiff = await createBailiff({
  database: await pgliteDatabase(),
  tools: [
    internalTool({
      name: 'message.post',
      description: 'Post a message to a customer.',
      input: z.object({ to: z.string(), text: z.string() }),
      output: z.object({ delivered: z.boolean() }),
      sideEffects: 'write',
      repeatable: false,
      handler: async (_invocation, { to }) => {
        sent.push(to)
        return ok({ delivered: true })
      },
    }),
  ],
  rules: [{ name: 'customers', tools: ['message.post'], when: 'arguments.to != "staff"', effect: 'require_approval' }],
})

// Any AI SDK model works here. This one is scripted, so that the example runs without a key.
const model = scriptedModel({
  name: 'scripted/own-loop',
  next: ({ turns, callsOf }) =>
    turns.length === 0
      ? { calls: [{ tool: 'message.post', args: { to: 'jo', text: 'Your order left today.' } }] }
      : { text: `The answer was ${callsOf('message.post')[0]?.answer}` },
})

const session = await governed(bailiff, { agent: 'support', tools: ['message.post'] })
let run = await session.start('Tell Jo that the order is on its way.')

async function converse(): Promise<void> {
  while (run.status.kind === 'ready')
    await run.drain(await generateText({ model: run.guard(model), messages: run.messages, tools: run.tools }))
}

await converse()
assert(run.status.kind === 'waiting')
const [question] = run.status.approvals
assert.deepEqual(question?.arguments, { to: 'jo', text: 'Your order left today.' })
const { id, argumentsHash } = question
await bailiff.approvals.approve({ id, argumentsHash, by: { id: 'ben', name: 'Ben' } })

run = await session.continue(run.runId)
await converse()
assert(run.status.kind === 'finished' && run.status.text.includes('"ok":true'))
assert.deepEqual(sent, ['jo'])
await bailiff.close()
console.log('posted once, after Ben said yes')
