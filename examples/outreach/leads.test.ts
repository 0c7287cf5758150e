import { expect, test } from 'vitest'
import { parseCsvInput } from '../../src/server/csv-input.ts'
import { leadsInput, MAX_LEADS } from './leads.ts'

function leads(text: string) {
  const csv = parseCsvInput(text)
  return csv.kind === 'rows' ? leadsInput(csv) : csv
}

test('columns may stand in any order, company and title may be missing, others are left out', () => {
  expect(leads('email,name,phone\njo@acme.test,Jo  Weber,123\n')).toEqual({
    kind: 'input',
    input: { leads: [{ name: 'Jo Weber', email: 'jo@acme.test', company: '', title: '' }] },
  })
})

test('a file without the needed columns says which', () => {
  expect(leads('mail,full name\njo@acme.test,Jo\n')).toMatchObject({
    kind: 'invalid',
    problems: [{ line: 1, message: 'the header has no column "name" and no column "email"' }],
  })
})

test('every bad row is named with its line and a remedy', () => {
  const text = 'name,email\nJo,jo@acme.test\n,sam@acme.test\nEd,ed at acme\nJo,JO@acme.test\nMia,"a@b.test, c@d.test"\n'
  expect(leads(text)).toMatchObject({
    kind: 'invalid',
    problems: [
      { line: 3, message: 'the name is empty', remedy: expect.any(String) },
      { line: 4, message: '"ed at acme" is not an email address' },
      { line: 5, message: 'JO@acme.test is in line 2 already' },
      { line: 6, message: '"a@b.test, c@d.test" is not an email address' },
    ],
  })
})

test('a file that one run cannot work through is refused', () => {
  const rows = Array.from({ length: MAX_LEADS + 1 }, (_, index) => `P${index},p${index}@acme.test`)
  expect(leads(['name,email', ...rows].join('\n'))).toMatchObject({
    problems: [{ line: null, message: '41 leads are more than 40' }],
  })
  expect(leads(['name,email', ...rows.slice(1)].join('\n'))).toMatchObject({ kind: 'input' })
})
