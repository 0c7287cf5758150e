import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isCredentialName } from './credential-names.ts'
import type { JsonValue } from './json.ts'
import { redact, REDACTED, redactText } from './redact.ts'

describe('names of credentials', () => {
  test.each([
    'token',
    'api_key',
    'apiKey',
    'X-API-Key',
    'secret',
    'client_secret',
    'password',
    'db.password',
    'Authorization',
    'proxy-authorization',
    'access_token',
    'refresh_token',
    'id_token',
    'Set-Cookie',
    'stripe_webhook_secret',
    'github_token',
    'privateKey',
    'connectionString',
    'DATABASE_URL',
    'SENTRY_DSN',
    'aws_secret_access_key',
    'x-amz-security-token',
    'ＡＰＩ＿ＫＥＹ',
    'pass\u200bword',
    'connect.sid',
  ])('%s is one', (name) => {
    expect(isCredentialName(name)).toBe(true)
  })

  test.each([
    'author',
    'keyboard',
    'keywords',
    'max_tokens',
    'token_count',
    'inputTokens',
    'next_page_token',
    'pageToken',
    'continuation_token',
    'idempotency_key',
    'primary_key',
    'foreignKey',
    'issueKey',
    'object_key',
    'public_key',
    'inside',
    'sidebar',
    'residence',
    'monkey',
    'secretary',
    'passenger',
    'design',
    'constructor',
    '__proto__',
    '',
  ])('%s is none', (name) => {
    expect(isCredentialName(name)).toBe(false)
  })
})

describe('redaction by name', () => {
  test('replaces the field wherever it sits and whatever it holds, and leaves texts about passwords alone', () => {
    const value = {
      rows: [{ id: 1, auth: { access_token: 'abc', scopes: ['a'] } }],
      Credentials: { user: 'x', nested: [1, 2] },
      token: null,
      body: 'I forgot my password: hunter2',
    }
    expect(redact(value, [])).toEqual({
      rows: [{ id: 1, auth: { access_token: REDACTED, scopes: ['a'] } }],
      Credentials: REDACTED,
      token: REDACTED,
      body: 'I forgot my password: hunter2',
    })
  })

  test('answers the value itself when there is nothing to take out', () => {
    const value = { rows: [{ id: 1 }, 'text'] }
    expect(redact(value, ['not-in-there'])).toBe(value)
  })
})

describe('redaction of the values in use', () => {
  const secret = 's3cr3t/ÿ+"key" 42'
  const inside = `user:${secret}`
  const utf8 = Buffer.from(secret, 'utf8')

  test.each([
    ['as it is', secret],
    ['inside a sentence', `the key ${secret} was refused`],
    ['in base64', utf8.toString('base64')],
    ['in base64url', utf8.toString('base64url')],
    ['in base64 after a user name', Buffer.from(inside, 'utf8').toString('base64')],
    ['in base64 at the third alignment', Buffer.from(`ab${secret}tail`, 'utf8').toString('base64')],
    ['URL encoded', encodeURIComponent(secret)],
    ['URL encoded in lower case', encodeURIComponent(secret).replace(/%../g, (code) => code.toLowerCase())],
    ['form encoded', encodeURIComponent(secret).replaceAll('%20', '+')],
    ['in hexadecimal', utf8.toString('hex')],
    ['in upper-case hexadecimal', utf8.toString('hex').toUpperCase()],
    ['JSON escaped', JSON.stringify({ echoed: secret })],
    ['JSON escaped twice', JSON.stringify(JSON.stringify({ echoed: secret }))],
  ])('takes it out %s', (_form, text) => {
    const clean = redact({ note: text, deep: [text] }, [secret]) as { note: string; deep: string[] }
    expect(clean.note).toContain(REDACTED)
    expect(clean.note).not.toContain(text)
    expect(clean.deep[0]).toBe(clean.note)
  })

  test('takes it out of names and of numbers, and keeps both of two fields whose names became one', () => {
    const value = { 'k-abcdef': 1, 'k-uvwxyz': 2, pins: [1234567, 7] }
    expect(redact(value, ['k-abcdef', 'k-uvwxyz', '1234567'])).toEqual({
      [REDACTED]: 1,
      [`${REDACTED}#2`]: 2,
      pins: [REDACTED, 7],
    })
  })

  test('prefers the longer of two secrets that contain each other', () => {
    expect(redactText('x abcdef-123456 y', ['abcdef', 'abcdef-123456'])).toBe(`x ${REDACTED} y`)
  })

  test('reads a secret as text, never as a pattern', () => {
    expect(redactText('aaaaaa (.*)+$^ b', ['(.*)+$^'])).toBe(`aaaaaa ${REDACTED} b`)
    expect(redactText('nothing', [''])).toBe('nothing')
  })

  test('leaves values under six characters to the name rule', () => {
    expect(redact({ city: 'Rome', password: 'Rome' }, ['Rome'])).toEqual({ city: 'Rome', password: REDACTED })
  })

  test('no secret survives, wherever in a value it was and however it was encoded', () => {
    const secretText = fc
      .string({ unit: 'grapheme', minLength: 8, maxLength: 40 })
      .filter((text) => text.trim().length >= 8)
    const encode = fc.constantFrom<(text: string) => string>(
      (text) => text,
      (text) => Buffer.from(text, 'utf8').toString('base64'),
      (text) => Buffer.from(text, 'utf8').toString('hex'),
      (text) => encodeURIComponent(text),
      (text) => JSON.stringify(text),
    )
    fc.assert(
      fc.property(secretText, encode, fc.string(), (secretValue, encoding, around) => {
        const shown = encoding(secretValue)
        const value: JsonValue = { a: [`${around}${shown}${around}`], [shown]: { b: shown } }
        const clean = JSON.parse(JSON.stringify(redact(value, [secretValue]))) as Record<string, JsonValue>
        const texts = [...Object.keys(clean), ...JSON.stringify(Object.values(clean)).split('"')]
        expect(texts.some((text) => text.includes(shown))).toBe(false)
      }),
      { numRuns: 300 },
    )
  })
})
