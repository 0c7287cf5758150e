import { describe, expect, test } from 'vitest'
import {
  OWN_LOOP,
  OWN_LOOP_STATE_VERSION,
  restoreState as restoreOwnLoop,
} from '../../src/frameworks/ai-sdk/own-conversation.ts'
import { currentState, FRAMEWORK_NAME, restoreState, STATE_VERSION } from '../../src/frameworks/ai-sdk/state.ts'
import { advance, endOf, proposalsOf, START } from '../../src/testing/session-scene.ts'
import { stateExample, upgradeProblems, type Readable } from './examples.ts'
import { done, MOMENTS, replay, savedStates, SIGNATURE, type Moment } from './states.ts'
import type { SessionState } from '../../src/runs/session.ts'

const FRAMEWORKS: readonly Readable[] = [
  { framework: FRAMEWORK_NAME, version: STATE_VERSION, restore: restoreState },
  { framework: OWN_LOOP, version: OWN_LOOP_STATE_VERSION, restore: restoreOwnLoop },
]

describe('the states of earlier builds', () => {
  test.each(FRAMEWORKS)('$framework: every version up to $version has an example that this build reads', (readable) => {
    expect(upgradeProblems(readable)).toEqual([])
  })

  test.each(FRAMEWORKS)(
    '$framework: a raised version asks for an example of it and for a step from the one before',
    ({ framework, version }) => {
      const raised = version + 1
      const readable = { framework, version: raised, upcasters: new Map() }
      const problems = upgradeProblems({ ...readable, restore: (saved) => currentState(saved, readable) })
      expect(problems).toContainEqual(expect.stringContaining(`${framework} has no example of version ${raised}`))
      expect(problems).toContainEqual(expect.stringContaining(`nothing reads a session saved as version ${version}`))
    },
  )

  test('are what this build saves; a new shape is a new version', async () => {
    expect(await savedStates()).toEqual(stateExample(FRAMEWORK_NAME, STATE_VERSION))
  })
})

const VERSIONS = Array.from({ length: STATE_VERSION }, (_, index) => index + 1)

describe.each(VERSIONS)('a conversation that was saved as version %i', (version) => {
  const example = stateExample(FRAMEWORK_NAME, version) ?? {}
  const saved = (moment: Moment): SessionState => {
    const state = example[moment]
    if (state === undefined) throw new Error(`there is no ${moment} state of version ${version}`)
    return state
  }

  test('has an example of every phase', () => {
    expect(Object.keys(example).toSorted()).toEqual([...MOMENTS].toSorted())
    const phases = Object.values(example).map(({ state }) => (state as { readonly phase: string }).phase)
    expect(new Set(phases)).toEqual(new Set(['new', 'running', 'paused', 'finished']))
  })

  test('new: begins', async () => {
    const { session } = replay(saved('new'))
    expect(proposalsOf(await advance(session, START))).toHaveLength(3)
  })

  test.each(['running', 'paused'] as const)('%s: goes on to its end', async (moment) => {
    const { session, prompts } = replay(saved(moment))
    const proposals = proposalsOf(await advance(session, { kind: 'continue' }))
    expect(proposals.map(({ toolName, args }) => [toolName, args])).toEqual([
      ['crm.upsert_person', { to: 'jo@acme.test' }],
      ['no_such_tool', 'not JSON'],
      ['email.send', { to: 'jo@acme.test' }],
    ])
    expect(prompts).toHaveLength(moment === 'running' ? 1 : 0)
    expect(endOf(await advance(session, done(proposals)))).toEqual({ kind: 'finished', text: 'All done.' })
    const told = JSON.stringify(prompts.at(-1))
    expect(told.split(SIGNATURE)).toHaveLength(3)
    for (const text of ['Invite Jo to the demo.', 'Looking.', '\\"q\\":\\"jo\\"', '\\"q\\":\\"sam\\"', '\\"done\\"'])
      expect(told).toContain(text)
  })

  test('answered: goes on with the results it was given', async () => {
    const { session, prompts } = replay(saved('answered'))
    expect(endOf(await advance(session, { kind: 'continue' }))).toEqual({ kind: 'finished', text: 'All done.' })
    expect(JSON.stringify(prompts[0]).split('\\"done\\"')).toHaveLength(4)
  })

  test('finished: says what it said', async () => {
    const { session, prompts } = replay(saved('finished'))
    const events = await advance(session, { kind: 'continue' })
    expect(events).toEqual([{ type: 'end', end: { kind: 'finished', text: 'All done.' } }])
    expect(prompts).toEqual([])
  })
})
