import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { mentionOf, mentions } from './mention.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

async function finds(address: string, value: unknown): Promise<boolean> {
  const mention = mentionOf(address)
  if (mention === null) throw new Error(`${address} is no address`)
  const { rows } = await db.database.query<{ found: boolean }>(
    unnamed(`SELECT ${mentions('v', '$2', '$3')} AS found FROM (SELECT $1::json AS v) x`),
    [JSON.stringify(value), mention.hint, mention.pattern],
  )
  return rows[0]?.found === true
}

test.each([
  'ann@acme.test',
  'Ann@Acme.TEST',
  { to: ['x', { deep: 'Write to ann@acme.test.' }] },
  { 'ann@acme.test': 1 },
  'a line\nann@acme.test\tand more',
  'Ann <ann@acme.test>, Ben',
  'mailto:ann@acme.test?subject=x',
  'https://x.test/?to=ann%40acme.test&a=b',
  'a%20ann%40acme.test',
  '\u001fann@acme.test',
  'ann@acme.test, joann@acme.test',
])('is found in %j', async (value) => {
  expect(await finds(' ANN@acme.test', value)).toBe(true)
})

test.each([
  null,
  'ann at acme.test',
  'joann@acme.test',
  'jo.ann@acme.test',
  'jo-ann@acme.test',
  'jo+ann@acme.test',
  'ann@acme.testing',
  'ann@acme.test.example',
  'ann@acme-test',
  'ann@acmextest',
  'ann+news@acme.test',
])('is not found in %j', async (value) => {
  expect(await finds('ann@acme.test', value)).toBe(false)
})

test.each(["o'neil+x.y_z%a@sub-domain.acme.test", 'a*b(c)[d]|e?^$@acme.test', 'bücher@acme.test'])(
  'is the address itself, whatever its characters mean elsewhere: %s',
  async (address) => {
    expect(await finds(address, { to: `<${address}>` })).toBe(true)
    expect(await finds(address, { to: 'somebody@acme.test' })).toBe(false)
  },
)

test.each(['', 'ann', '@acme.test', 'ann@', 'a b@c', 'a@b@c', '"ann"@acme.test', `${'a'.repeat(300)}@acme.test`])(
  'is no address: %j',
  (text) => {
    expect(mentionOf(text)).toBeNull()
  },
)
