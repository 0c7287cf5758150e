import { randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { envKeyProvider, VaultKeyError } from './env-keys.ts'

const key = (bytes = 32): string => randomBytes(bytes).toString('base64')

function refusal(text: string): string {
  try {
    envKeyProvider(text)
  } catch (error) {
    if (error instanceof VaultKeyError) return error.message
    throw error
  }
  throw new Error('the keys were taken')
}

test('one key, with or without a name', () => {
  expect(envKeyProvider(key()).currentId).toMatch(/^key-[0-9a-f]{12}$/)
  expect(envKeyProvider(`2026-12:${key()}`).currentId).toBe('2026-12')
})

test('a key without a name has the same one wherever it stands', async () => {
  const [a, b] = [key(), key()]
  const wrapped = await envKeyProvider(a).wrap(Buffer.alloc(32, 1), Buffer.from('context'))
  const from = { keyId: envKeyProvider(a).currentId, context: Buffer.from('context') }
  expect(Buffer.from(await envKeyProvider(`${b},${a}`).unwrap(wrapped, from))).toEqual(Buffer.alloc(32, 1))
})

test('a key of any other length than 32 bytes is refused, with the way to make one', () => {
  for (const bytes of [1, 16, 24, 31, 33, 64]) expect(refusal(key(bytes))).toContain('openssl rand -base64 32')
})

test.each([
  ['nothing', ''],
  ['a password', 'correct horse battery staple'],
  ['an empty place in the list', `${key()},`],
  ['a name without a key', 'name:'],
  ['a key in hexadecimal', randomBytes(32).toString('hex')],
  ['a key without its padding', key().slice(0, -1)],
  ['the same key twice', ((text: string) => `${text},${text}`)(key())],
  ['two keys of one name', `a:${key()},a:${key()}`],
  ['a name with a space', `my key:${key()}`],
])('%s is refused', (_what, text) => {
  expect(refusal(text)).toMatch(/base64/)
})

test('a refusal repeats nothing of what it refuses', () => {
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[A-Za-z0-9+/]{20,60}$/), { minLength: 1, maxLength: 3 }), (parts) => {
      const said = refusal(`${parts.join(',')},not-a-key`)
      expect(parts.filter((part) => said.includes(part))).toEqual([])
    }),
  )
})
