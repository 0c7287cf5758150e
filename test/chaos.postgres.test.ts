import { expect, inject, test } from 'vitest'
import { runChaos } from './crash/chaos.ts'

/** The short form, half of the runs workflows with a run of their own; `npm run chaos` kills for two minutes under two hundred runs, and lets every lease run out. */
test('three servers of which one is killed every two seconds end every run, send every mail once, and keep to the lanes', async () => {
  const figures = await runChaos({
    postgresUrl: inject('postgresUrl'),
    seconds: 14,
    runs: 20,
    processes: 3,
    killEveryMs: 2_000,
    endLeases: true,
    seed: 7,
  })
  expect(figures).toMatchObject({
    runs: { started: 20, byStatus: { completed: 30 }, open: 0 },
    mails: { arrived: 60, messageIds: 60, duplicates: [], losses: [] },
    questions: { pending: 0 },
    left: { orphans: 0, claims: 0, running: 0 },
  })
  // That there was chaos at all, and lanes that could have been passed.
  expect(figures.processes.kills).toBeGreaterThan(3)
  expect(figures.lanes).toHaveLength(2)
  for (const { peak, limit } of figures.lanes) expect(peak).toBeLessThanOrEqual(limit)
}, 240_000)
