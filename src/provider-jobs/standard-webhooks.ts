import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookHeaders } from './adapter.ts'

/**
 * How a secret becomes a key: `text` takes it as it is written, `standard` takes what is behind `whsec_` as base64, as the
 * libraries of the standard do. Providers that follow the standard differ in this.
 */
export type SecretEncoding = 'text' | 'standard'

export interface StandardWebhookKeys {
  /** The current one and, while it is changed, the one before. */
  readonly secrets: readonly string[]
  readonly encoding: SecretEncoding
}

/** Seconds that a delivery may be old, or ahead: what the standard recommends against replays. */
const TOLERANCE_S = 300

/** Signatures looked at: more than one is sent while a secret is changed. */
const MAX_SIGNATURES = 16

/**
 * Checks a callback signed as Standard Webhooks says: HMAC-SHA256 over `<id>.<timestamp>.<body>`, as `v1,<base64>` entries
 * of which one has to fit.
 */
export function standardWebhookVerifier(
  { secrets, encoding }: StandardWebhookKeys,
  now: () => Date,
): (rawBody: Uint8Array, headers: WebhookHeaders) => boolean {
  const keys = secrets.map((secret) => keyOf(secret, encoding))
  return (rawBody, headers) => {
    const [id, timestamp, signature] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
      headers(name),
    )
    if (id === undefined || timestamp === undefined || signature === undefined) return false
    if (!/^\d{1,12}$/.test(timestamp)) return false
    if (Math.abs(now().getTime() / 1000 - Number(timestamp)) > TOLERANCE_S) return false
    const given = signature.split(' ').slice(0, MAX_SIGNATURES).flatMap(signatureOf)
    return keys
      .map((key) => createHmac('sha256', key).update(`${id}.${timestamp}.`).update(rawBody).digest())
      .flatMap((wanted) => given.map((one) => timingSafeEqual(wanted, one)))
      .includes(true)
  }
}

function signatureOf(entry: string): readonly Buffer[] {
  const text = /^v1,([A-Za-z0-9+/]{43}=)$/.exec(entry)?.[1]
  return text === undefined ? [] : [Buffer.from(text, 'base64')]
}

/** @throws Error for a secret that gives no key; it is not repeated */
function keyOf(secret: string, encoding: SecretEncoding): Buffer {
  const key = encoding === 'text' ? Buffer.from(secret, 'utf8') : Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  if (key.length < 8) throw new Error('the secret of a webhook is too short to be one')
  return key
}
