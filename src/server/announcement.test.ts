import { expect, test } from 'vitest'
import { announcement, type AnnouncementFacts, closingLines } from './announcement.ts'

const FACTS: AnnouncementFacts = {
  url: 'http://127.0.0.1:4400',
  token: 'TOKEN',
  apiKey: 'bk_KEY',
  model: 'scripted/outreach',
  modelChosen: false,
  database: { dialect: 'pglite', description: 'PGlite in /data' },
  selfApproval: true,
  notices: ['mail lands in /data/outbox'],
  warnings: [],
  openTo: null,
}

test('a first start says where, who, with which model, and how safe the data is', () => {
  const lines = announcement(FACTS)
  expect(lines).toContain('console: http://127.0.0.1:4400/?token=TOKEN')
  expect(lines).toContain('api key: bk_KEY')
  expect(lines).toContain('mail lands in /data/outbox')
  const text = lines.join('\n')
  expect(text).toContain('scripted stand-in and no language model, because BAILIFF_MODEL is not set')
  expect(text).toContain('not against power loss')
  expect(text).toContain('selfApproval')
})

test('a later start shows no key, and a real model and database no excuses', () => {
  const text = announcement({
    ...FACTS,
    apiKey: null,
    model: 'openai/x',
    modelChosen: true,
    database: { dialect: 'postgres', description: 'PostgreSQL at h/d' },
    selfApproval: false,
  }).join('\n')
  expect(text).not.toMatch(/api key|scripted|power loss|selfApproval/)
})

test('a server that others can reach without TLS says so', () => {
  expect(announcement({ ...FACTS, openTo: '0.0.0.0' }).join('\n')).toContain('without TLS')
})

test('what waits is counted, and how to stop comes last', () => {
  const closing = (count: number, more = false) =>
    closingLines({ url: FACTS.url, firstRun: null, waiting: { count, more } })
  expect(closing(0)).toStrictEqual(['stop: press Ctrl-C'])
  expect(closing(1)[0]).toContain('1 approval waits')
  expect(closing(3)[0]).toContain('3 approvals wait')
  expect(closing(50, true)[0]).toContain('more than 50 approvals wait')
})
