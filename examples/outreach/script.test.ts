import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { JsonValue, PastCall, PastTurn, ScriptedTurn } from 'bailiff/testing'
import { readCsvInput } from '../../src/server/csv-input.ts'
import { type Lead, leadsInput } from './leads.ts'
import { outreachScript } from './script.ts'

const JO: Lead = { name: 'Jo Weber', email: 'jo@acme.test', company: 'Acme', title: 'Buyer' }
const SAM: Lead = { name: 'Sam', email: 'sam@other.test', company: '', title: '' }

/** Answers one call as the platform would; null leaves it open. */
type Answer = (call: { tool: string; args: JsonValue; index: number }) => JsonValue | string

const FINE: Answer = ({ tool, args }) => {
  if (tool === 'crm.search_people') return { ok: true, count: 2, data: [] }
  if (tool === 'crm.upsert_person') return { ok: true, data: { id: 'p', created: true } }
  return { ok: true, data: { messageId: '<m@bailiff>', accepted: (args as { to: string[] }).to, rejected: [] } }
}

function mails(answer: Answer): Answer {
  return (call) => (call.tool === 'email.send' ? answer(call) : FINE(call))
}

/** Plays the script to its end and answers every call on the way. */
function play(input: string, answer: Answer): { turns: ScriptedTurn[]; summary: string } {
  const past: PastTurn[] = []
  const turns: ScriptedTurn[] = []
  for (;;) {
    const turn = outreachScript({
      instructions: '',
      input,
      tools: [],
      turns: past,
      callsOf: (tool) => past.flatMap(({ calls }) => calls).filter((call) => call.tool === tool),
    })
    turns.push(turn)
    if ((turn.calls ?? []).length === 0) return { turns, summary: turn.text ?? '' }
    const calls = (turn.calls ?? []).map(({ tool, args = null }, index): PastCall => {
      const given = answer({ tool, args, index })
      const text = typeof given === 'string' ? given : JSON.stringify(given)
      return { id: `${past.length}-${index}`, tool, args, answer: text, result: given }
    })
    past.push({ text: turn.text ?? '', calls })
  }
}

function input(...leads: Lead[]): string {
  return JSON.stringify({ leads })
}

test('looks, records every lead, writes to every lead in one turn, and says what happened', () => {
  const { turns, summary } = play(input(JO, SAM), FINE)
  expect(turns.map(({ calls }) => (calls ?? []).map(({ tool }) => tool))).toEqual([
    ['crm.search_people'],
    ['crm.upsert_person', 'crm.upsert_person'],
    ['email.send', 'email.send'],
    [],
  ])
  expect(turns[1]?.text).toContain('found 2 people')
  expect(turns[1]?.calls?.map(({ args }) => args)).toEqual([JO, { name: 'Sam', email: 'sam@other.test' }])
  expect(turns[2]?.calls).toMatchObject([{ args: { to: ['jo@acme.test'] } }, { args: { to: ['sam@other.test'] } }])
  expect(summary).toBe('2 of 2 mails sent.\n- Jo Weber <jo@acme.test>: sent.\n- Sam <sam@other.test>: sent.')
})

test('the same conversation gives the same turn, so a restarted run goes on where it was', () => {
  expect(play(input(JO, SAM), FINE)).toEqual(play(input(JO, SAM), FINE))
})

test.each<[string, JsonValue | string, string]>([
  [
    'a rejection',
    { ok: false, error: { code: 'rejected', message: 'not her' } },
    'not sent, a person rejected it (not her).',
  ],
  ['a refusal', { ok: false, error: { code: 'denied', message: 'no mail' } }, 'not sent, a rule refused it (no mail).'],
  [
    'a bad address',
    { ok: false, error: { code: 'invalid_input', message: 'refused.' } },
    'not sent (invalid_input: refused).',
  ],
  [
    'a lost answer',
    { ok: false, error: { code: 'timeout', message: 'nobody knows' } },
    'not known to be sent (nobody knows).',
  ],
  ['a spoiled answer', { ok: false, error: { code: 'invalid_output', message: 'bad' } }, 'not known to be sent (bad).'],
  ['a confirmation by a person', { ok: true, data: null }, 'sent, as a person confirmed.'],
  [
    'an address the server left out',
    { ok: true, data: { accepted: [] } },
    'not sent (the mail server did not accept the address).',
  ],
  [
    'an answer cut short',
    { ok: true, data: { accepted: 'dropped' } },
    'not known to be sent (the answer names no recipients).',
  ],
  ['an answer that is no JSON', 'hello', 'not known to be sent (the answer could not be read).'],
])('the summary tells %s as what it is', (_case, answer, line) => {
  const { summary } = play(
    input(JO),
    mails(() => answer),
  )
  expect(summary.split('\n')[1]).toBe(`- Jo Weber <jo@acme.test>: ${line}`)
  expect(summary.startsWith(line.startsWith('sent') ? '1 of 1 mail sent.' : '0 of 1 mail sent.')).toBe(true)
})

test('each mail is told by its own answer', () => {
  const rejectSecond = mails((call) =>
    call.index === 1 ? { ok: false, error: { code: 'rejected', message: 'no' } } : FINE(call),
  )
  expect(play(input(JO, SAM), rejectSecond).summary).toContain(
    '1 of 2 mails sent.\n- Jo Weber <jo@acme.test>: sent.\n- Sam',
  )
})

test('an answer from outside stands in an envelope; its first line is enough', () => {
  const enveloped: Answer = (call) =>
    call.tool === 'crm.search_people'
      ? '{"ok":true,"count":1}\n⟦untrusted⟧\n[{"name":"ignore this"}]\n⟦/untrusted⟧'
      : FINE(call)
  const { turns } = play(input(JO), enveloped)
  expect(turns[1]?.text).toContain('found 1 person')
})

test('a lead that could not be recorded is written to all the same, and the summary says so', () => {
  const { summary } = play(input(JO), (call) =>
    call.tool === 'crm.upsert_person' ? { ok: false, error: { code: 'denied', message: 'no' } } : FINE(call),
  )
  expect(summary).toContain('sent. Not recorded in the CRM (denied).')
})

test.each(['', 'hello', '[]', '{"leads":[]}', '{"leads":[{"name":"Jo"}]}', '{"leads":"__proto__"}'])(
  'the input %j ends the run with a sentence and no call',
  (text) => {
    const { turns, summary } = play(text, FINE)
    expect(turns).toHaveLength(1)
    expect(summary).toContain('no leads')
  },
)

test('an address that is listed twice gets one mail', () => {
  const { turns } = play(input(JO, { ...JO, email: 'JO@acme.test', name: 'Again' }), FINE)
  expect(turns[2]?.calls).toHaveLength(1)
})

test('the file that comes with the example is a run of three', async () => {
  const csv = await readCsvInput(join(import.meta.dirname, 'leads.csv'))
  const made = csv.kind === 'rows' ? leadsInput(csv) : csv
  const leads = made.kind === 'input' ? made.input.leads : []
  expect(leads).toHaveLength(3)
  expect(leads.every(({ email }) => /\.(test|example)$/.test(email))).toBe(true)
  expect(play(JSON.stringify({ leads }), FINE).summary).toContain('3 of 3 mails sent.')
})
