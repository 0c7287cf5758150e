import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { standardWebhookVerifier, type SecretEncoding } from './standard-webhooks.ts'

/** The example of the standard itself. */
const EXAMPLE = {
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  timestamp: '1614265330',
  body: '{"test": 2432232314}',
  signature: 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
}
const AT = new Date(1_614_265_330_000)

function verify(
  part: Partial<typeof EXAMPLE> & { encoding?: SecretEncoding; secrets?: string[]; at?: Date } = {},
): boolean {
  const { id, timestamp, signature, body, secret, encoding = 'standard', at = AT } = { ...EXAMPLE, ...part }
  const headers: Record<string, string> = {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signature,
  }
  const verifier = standardWebhookVerifier({ secrets: part.secrets ?? [secret], encoding }, () => at)
  return verifier(Buffer.from(body), (name) => (Object.hasOwn(headers, name) ? headers[name] : undefined))
}

test('the example of the standard fits', () => {
  expect(verify()).toBe(true)
})

test('every part is signed', () => {
  expect(verify({ id: 'msg_other' })).toBe(false)
  expect(verify({ timestamp: '1614265331' })).toBe(false)
  expect(verify({ body: '{"test":2432232314}' })).toBe(false)
  expect(verify({ secret: 'whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw' })).toBe(false)
})

test('a secret that is taken as text is another key than the same one decoded', () => {
  const text = createHmac('sha256', EXAMPLE.secret)
    .update(`${EXAMPLE.id}.${EXAMPLE.timestamp}.${EXAMPLE.body}`)
    .digest('base64')
  expect(verify({ encoding: 'text' })).toBe(false)
  expect(verify({ encoding: 'text', signature: `v1,${text}` })).toBe(true)
  expect(verify({ encoding: 'standard', signature: `v1,${text}` })).toBe(false)
})

test('any of several signatures and any of several secrets may fit', () => {
  expect(verify({ signature: `v1a,xxx v1,${'A'.repeat(43)}= ${EXAMPLE.signature}` })).toBe(true)
  expect(verify({ secrets: ['whsec_AAAA9r8GKYqrTwjUPD8ILPZIo2LaLaSw', EXAMPLE.secret] })).toBe(true)
  expect(verify({ signature: 'v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=' })).toBe(false)
  expect(verify({ signature: '' })).toBe(false)
})

test('a delivery is believed for five minutes, before and after its time', () => {
  const off = (seconds: number): boolean => verify({ at: new Date(AT.getTime() + seconds * 1000) })
  expect([-301, -300, 0, 300, 301].map(off)).toEqual([false, true, true, true, false])
  for (const timestamp of ['', 'now', '-1', '1e9', '1614265330.0']) expect(verify({ timestamp })).toBe(false)
})

test('a secret that is too short to be one is refused, and not repeated', () => {
  for (const encoding of ['text', 'standard'] as const)
    expect(() => standardWebhookVerifier({ secrets: ['short'], encoding }, () => AT)).toThrow(
      /^(?!.*short to be one.*short).*too short/,
    )
})
