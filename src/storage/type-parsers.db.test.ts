import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestDatabase, testDatabase } from '../../test/setup/database.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase
beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

async function value(expression: string, values: readonly unknown[] = []): Promise<unknown> {
  const { rows } = await db.database.query<{ value: unknown }>(unnamed(`SELECT ${expression} AS value`), values)
  return rows[0]?.value
}

// Both projects run these, so a value that differs between the drivers fails in one of them.
describe('a value read from the database', () => {
  test.each<[sql: string, expected: unknown]>([
    ['true', true],
    ['false', false],
    ['7::int2', 7],
    ['-7::int4', -7],
    ['9007199254740991::bigint', 9007199254740991],
    ['-9007199254740991::bigint', -9007199254740991],
    ['(SELECT count(*) FROM (VALUES (1), (2)) AS t (n))', 2],
    ['12345678.123456::numeric(14,6)', 12345678.123456],
    ['(SELECT sum(n) FROM (VALUES (0.1::numeric), (0.2)) AS t (n))', 0.3],
    ['0.5::float8', 0.5],
    [`'{a,NULL}'::varchar[]`, ['a', null]],
    [`'text'::varchar`, 'text'],
    [`'2025-02-03'::date`, '2025-02-03'],
    [`'2025-02-03 04:05:06'::timestamp`, '2025-02-03 04:05:06'],
    [`'2025-02-03 04:05:06.789+02'::timestamptz`, new Date('2025-02-03T02:05:06.789Z')],
    [`'2025-02-03 04:05:06.7891234+05:30'::timestamptz`, new Date('2025-02-02T22:35:06.789Z')],
    [`'0192f0c1-2345-7abc-8def-0123456789ab'::uuid`, '0192f0c1-2345-7abc-8def-0123456789ab'],
    [`'\\x00ff10'::bytea`, Buffer.from([0, 255, 16])],
    [`'{"a":[1,null,"x"]}'::json`, { a: [1, null, 'x'] }],
    [`'{"a":[1,null,"x"]}'::jsonb`, { a: [1, null, 'x'] }],
    [`'null'::json`, null],
    ['NULL::json', null],
    ['NULL::bytea', null],
    [`ARRAY['a', NULL, 'NULL', '', 'b,"c\\d', '{e}']`, ['a', null, 'NULL', '', 'b,"c\\d', '{e}']],
    [`'{}'::text[]`, []],
    [
      'ARRAY[[1,2],[3,4]]',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    [`'[0:1]={5,6}'::int[]`, [5, 6]],
    ['ARRAY[1::bigint, 2]', [1, 2]],
    ['ARRAY[1.5::numeric]', [1.5]],
    ['ARRAY[true, false]', [true, false]],
    [`ARRAY['\\x01'::bytea]`, [Buffer.from([1])]],
    [`ARRAY['2025-02-03 04:05:06+00'::timestamptz]`, [new Date('2025-02-03T04:05:06Z')]],
    [`ARRAY['0192f0c1-2345-7abc-8def-0123456789ab'::uuid]`, ['0192f0c1-2345-7abc-8def-0123456789ab']],
    [`ARRAY['{"a":1}'::jsonb]`, [{ a: 1 }]],
    [`interval '1 day'`, '1 day'],
  ])('%s', async (sql, expected) => {
    expect(await value(sql)).toStrictEqual(expected)
  })

  test('a bigint that a number cannot hold is refused, not rounded', async () => {
    await expect(value('9007199254740992::bigint')).rejects.toThrow(/too large/)
  })

  test('a timestamp that is no instant is refused', async () => {
    await expect(value(`'infinity'::timestamptz`)).rejects.toThrow(/no instant/)
    await expect(value(`'0044-03-15 12:00:00+00 BC'::timestamptz`)).rejects.toThrow(/no instant/)
  })

  test('days are those of UTC', async () => {
    expect(await value('current_setting($1)', ['TimeZone'])).toBe('UTC')
  })
})

describe('a value sent to the database', () => {
  test.each<[cast: string, sent: unknown, expected: unknown]>([
    ['$1::int', 7, 7],
    ['$1::bigint', 9007199254740991, 9007199254740991],
    ['$1::numeric', 0.1, 0.1],
    ['$1::boolean', false, false],
    ['$1::text', 'ä "quoted" \\ 😀', 'ä "quoted" \\ 😀'],
    ['$1::timestamptz', new Date('2025-02-03T02:05:06.789Z'), new Date('2025-02-03T02:05:06.789Z')],
    ['$1::bytea', new Uint8Array([0, 1, 255]), Buffer.from([0, 1, 255])],
    ['$1::bytea', Buffer.from('hash'), Buffer.from('hash')],
    ['$1::uuid', '0192f0c1-2345-7abc-8def-0123456789ab', '0192f0c1-2345-7abc-8def-0123456789ab'],
    ['$1::uuid[]', ['0192f0c1-2345-7abc-8def-0123456789ab'], ['0192f0c1-2345-7abc-8def-0123456789ab']],
    ['$1::text[]', ['a', null, '', 'b,"c\\d', 'NULL'], ['a', null, '', 'b,"c\\d', 'NULL']],
    ['$1::int[]', [], []],
    ['$1::bytea[]', [Buffer.from([1, 2]), Buffer.from([])], [Buffer.from([1, 2]), Buffer.from([])]],
    ['$1::json', JSON.stringify({ a: ['x', null] }), { a: ['x', null] }],
    ['$1::jsonb', JSON.stringify('text'), 'text'],
    ['$1::json', null, null],
    ['$1::text', undefined, null],
  ])('%s of %j', async (cast, sent, expected) => {
    expect(await value(cast, [sent])).toStrictEqual(expected)
  })

  test('json keeps what jsonb refuses: escaped null characters and lone surrogates', async () => {
    for (const sent of ['nul \u0000 inside', 'lone \ud800 surrogate', 'tail \udfff', { '\u0000': '\u0000' }]) {
      expect(await value('$1::json', [JSON.stringify(sent)])).toStrictEqual(sent)
      await expect(value('$1::jsonb', [JSON.stringify(sent)])).rejects.toMatchObject({
        code: expect.stringMatching(/^22/),
      })
    }
  })

  test('json keeps the order and the doubles of its keys as text', async () => {
    expect(await value('($1::json)::text', ['{"b":1,"a":2,"b":3}'])).toBe('{"b":1,"a":2,"b":3}')
  })
})
