import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runHistory, type RunHistory } from './run-histories.ts'
import { RunPlayer, type PlayedRun } from './run-player.ts'
import { testDatabase, type TestDatabase } from './setup/database.ts'

let db: TestDatabase
let player: RunPlayer

beforeAll(async () => {
  db = await testDatabase()
  player = new RunPlayer(db.database)
  await player.open(await db.another())
})
afterAll(() => db.close())

const HISTORIES = Number(process.env['BAILIFF_TEST_HISTORIES'] ?? 60)

const ENDED = ['completed', 'partial', 'failed', 'cancelled']

function check({ maxTurns, maxToolCalls }: RunHistory, played: PlayedRun): void {
  const { run, arrived, notes, sendAgain } = played
  expect(ENDED, `after ${played.rounds} rounds`).toContain(run.status)
  expect(played.pending, 'questions left open').toBe(0)
  expect(played.forbidden, 'sends that nothing allowed').toEqual([])
  for (const call of new Set(arrived)) {
    const times = arrived.filter((one) => one === call).length
    expect(times, `${call} arrived`).toBeLessThanOrEqual(1 + (sendAgain.get(call) ?? 0))
  }
  expect(notes, 'a note was written twice').toEqual([...new Set(notes)])
  expect(run.turns).toBeLessThanOrEqual(maxTurns)
  expect(run.toolCalls).toBeLessThanOrEqual(maxToolCalls)
}

test(
  `every run of ${HISTORIES} random histories ends when people answer and time passes`,
  async () => {
    const seen = new Map<string, number>()
    await fc.assert(
      fc.asyncProperty(runHistory, async (history) => {
        const played = await player.play(history)
        check(history, played)
        seen.set(played.run.status, (seen.get(played.run.status) ?? 0) + 1)
      }),
      { numRuns: HISTORIES },
    )
    // Histories of which none gets to its end would prove little.
    expect(seen.get('completed')).toBeGreaterThan(0)
  },
  30_000 + HISTORIES * 1_000,
)

test('that a call arrived can be said after its grant was withdrawn, and the run ends', async () => {
  const history: RunHistory = {
    turns: [{ calls: [{ tool: 'email.send', args: { to: 'jo' } }] }],
    rules: { 'crm.search': 'allow', 'crm.note': 'allow', 'email.send': 'allow', 'sms.send': 'allow' },
    maxTurns: 6,
    maxToolCalls: 20,
    events: [
      { do: 'dead claim', tool: 'email.send', subject: 'jo' },
      { do: 'grant', tool: 'email.send', to: false },
    ],
    home: { how: 'approve', said: 'arrived', alone: false },
  }
  const played = await player.play(history)
  check(history, played)
  expect(played.run.status).toBe('completed')
  expect(played.arrived).toEqual([])
})
