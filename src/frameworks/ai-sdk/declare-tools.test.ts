import { expect, test } from 'vitest'
import { contract, READ, SEND, WRITE } from '../../../test/ai-sdk-session.ts'
import { declareTools, historyName } from './declare-tools.ts'

const read = () => Promise.resolve('')

test('T13 reads have something to execute, writes and sends have nothing', () => {
  const { tools } = declareTools({ contracts: [READ, WRITE, SEND] }, read)
  expect(Object.entries(tools).map(([name, tool]) => [name, typeof tool.execute])).toEqual([
    ['crm_search_people', 'function'],
    ['crm_upsert_person', 'undefined'],
    ['email_send', 'undefined'],
  ])
})

test('a read that may have to wait for a person has nothing to execute either', () => {
  const declared = declareTools({ contracts: [READ, WRITE], pausable: new Set([READ.name]) }, read)
  expect(Object.values(declared.tools).map((tool) => typeof tool.execute)).toEqual(['undefined', 'undefined'])
  expect([READ, WRITE].map((one) => declared.runsInLoop(one))).toEqual([false, false])
})

test('a read is handed on under its platform name, with the id of the call', async () => {
  const asked: unknown[] = []
  const { tools } = declareTools({ contracts: [READ] }, (call) => {
    asked.push(call)
    return Promise.resolve('the answer')
  })
  const execute = tools['crm_search_people']?.execute
  const text: unknown = await execute?.({ q: 'jo' }, { toolCallId: 'c1', messages: [], context: {} })
  expect(text).toBe('the answer')
  expect(asked).toEqual([{ callId: 'c1', toolName: 'crm.search_people', args: { q: 'jo' } }])
})

test('T66 both names of a tool lead to its contract, and nothing else does', () => {
  const declared = declareTools({ contracts: [READ, SEND] }, read)
  expect(declared.contractOf('email_send')).toBe(SEND)
  expect(declared.contractOf('email.send')).toBe(SEND)
  for (const name of ['constructor', '__proto__', 'toString', 'Email_Send', ' email_send', '']) {
    expect(declared.contractOf(name)).toBeUndefined()
  }
})

test('T67 two names that derive one are refused, and so is one name twice', () => {
  const pair = [contract('mcp.slack_send', 'send'), contract('mcp_slack.send', 'send')]
  expect(() => declareTools({ contracts: pair }, read)).toThrow('mcp.slack_send and mcp_slack.send')
  expect(() => declareTools({ contracts: [READ, READ] }, read)).toThrow('crm.search_people and crm.search_people')
})

test('T68 a derived name over 64 characters is refused again when a segment is built', () => {
  const longest = `crm.${'a'.repeat(60)}`
  expect(Object.keys(declareTools({ contracts: [contract(longest, 'read')] }, read).tools)[0]).toHaveLength(64)
  expect(() => declareTools({ contracts: [contract(`${longest}b`, 'read')] }, read)).toThrow(
    /65 characters, at most 64/,
  )
})

test('only a name that a provider takes back stands in the history', () => {
  expect(historyName('email.send', SEND)).toBe('email_send')
  expect(historyName('no_such_tool', undefined)).toBe('no_such_tool')
  expect(historyName('drop table', undefined)).toBe('unknown_tool')
  expect(historyName('x'.repeat(65), undefined)).toBe('unknown_tool')
  for (const inherited of ['constructor', '__proto__', 'toString', 'valueOf']) {
    expect(historyName(inherited, undefined)).toBe('unknown_tool')
  }
})
