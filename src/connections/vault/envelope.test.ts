import { createCipheriv, randomBytes } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { envKeyProvider } from './env-keys.ts'
import { seal, unseal } from './envelope.ts'
import { VaultFault } from './key-provider.ts'
import type { Sealed, SealPlace } from './sealed.ts'

const newKey = (): string => randomBytes(32).toString('base64')
const KEYS = envKeyProvider(newKey())
const PLACE: SealPlace = { organizationId: 'org-1', connectionId: 'con-1', field: 'pass' }

/** Regions of a stored value: where each begins and ends. */
const IV = [0, 12] as const
const TAG = [12, 28] as const

async function reasonOf(opening: Promise<unknown>): Promise<string> {
  const error = await opening.then(() => undefined).catch((raised: unknown) => raised)
  if (!(error instanceof VaultFault)) throw new Error('it was opened, or failed otherwise', { cause: error })
  return error.reason
}

function flipped(bytes: Uint8Array, at: number, bit: number): Uint8Array {
  const copy = Uint8Array.from(bytes)
  copy[at] = (copy[at] ?? 0) ^ (1 << bit)
  return copy
}

test('every text comes back as it was, at its place and with its key', async () => {
  const place = fc.record({ organizationId: fc.string(), connectionId: fc.string(), field: fc.string() })
  await fc.assert(
    fc.asyncProperty(place, fc.string({ unit: 'grapheme', maxLength: 500 }), async (at, value) => {
      const stored = await seal(KEYS, at, value)
      expect(await unseal(KEYS, at, stored)).toBe(value)
      // Short values occur in random bytes by chance.
      if (value.length > 6) expect(Buffer.from(stored.sealed).includes(value)).toBe(false)
    }),
  )
})

test('the same value never looks the same twice: data key, iv and ciphertext are new each time', async () => {
  const all = await Promise.all(Array.from({ length: 200 }, () => seal(KEYS, PLACE, 'hunter2')))
  const parts = all.flatMap(({ wrappedKey, sealed }) => [
    Buffer.from(wrappedKey.subarray(...IV)).toString('hex'),
    Buffer.from(wrappedKey.subarray(28)).toString('hex'),
    Buffer.from(sealed.subarray(...IV)).toString('hex'),
    Buffer.from(sealed.subarray(28)).toString('hex'),
  ])
  expect(new Set(parts).size).toBe(800)
})

describe('a stored value that was changed does not open', () => {
  const regions = { iv: IV, tag: TAG, ciphertext: [28, 44] } as const
  const layers = ['wrappedKey', 'sealed'] as const

  test.each(layers.flatMap((layer) => Object.keys(regions).map((region) => [layer, region] as const)))(
    'one bit of %s, %s',
    async (layer, region) => {
      const stored = await seal(KEYS, PLACE, 'exactly 16 bytes')
      const [from, to] = regions[region as keyof typeof regions]
      for (let at = from; at < to; at += 1) {
        const altered = { ...stored, [layer]: flipped(stored[layer], at, at % 8) }
        expect(await reasonOf(unseal(KEYS, PLACE, altered))).toBe('tampered')
      }
    },
  )

  test('whatever byte is changed, and whatever is cut off or added', async () => {
    const stored = await seal(KEYS, PLACE, 'a longer secret, so that there is something to change')
    const change = fc.record({ layer: fc.constantFrom(...layers), at: fc.nat(), bit: fc.integer({ min: 0, max: 7 }) })
    await fc.assert(
      fc.asyncProperty(change, async ({ layer, at, bit }) => {
        const bytes = stored[layer]
        const altered = [
          flipped(bytes, at % bytes.length, bit),
          bytes.subarray(0, at % bytes.length),
          bytes.subarray((at % bytes.length) + 1),
          Buffer.concat([bytes, Buffer.from([bit])]),
        ]
        for (const value of altered) {
          const opening = unseal(KEYS, PLACE, { ...stored, [layer]: value })
          expect(['tampered', 'malformed']).toContain(await reasonOf(opening))
        }
      }),
    )
  })

  test('a value whose tag has four bytes, made with the right keys', async () => {
    const key = Buffer.alloc(32, 7)
    const { currentId } = KEYS
    const context = Buffer.from(JSON.stringify(['cred.v1', 'org-1', 'con-1', 'pass', currentId]))
    const iv = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: 4 }).setAAD(context)
    const ciphertext = Buffer.concat([cipher.update('hunter2 and more bytes'), cipher.final()])
    const short: Sealed = {
      version: 1,
      keyId: currentId,
      wrappedKey: await KEYS.wrap(key, context),
      sealed: Buffer.concat([iv, cipher.getAuthTag(), ciphertext]),
    }
    expect(await reasonOf(unseal(KEYS, PLACE, short))).toBe('tampered')
  })

  test('another version, and a data key of another length', async () => {
    const stored = await seal(KEYS, PLACE, 'hunter2')
    expect(await reasonOf(unseal(KEYS, PLACE, { ...stored, version: 2 }))).toBe('malformed')
    const context = Buffer.from(JSON.stringify(['cred.v1', 'org-1', 'con-1', 'pass', stored.keyId]))
    const wrappedKey = await KEYS.wrap(Buffer.alloc(16), context)
    expect(await reasonOf(unseal(KEYS, PLACE, { ...stored, wrappedKey }))).toBe('malformed')
  })
})

describe('a stored value that was moved does not open', () => {
  test.each<[string, Partial<SealPlace>]>([
    ['to another organization', { organizationId: 'org-2' }],
    ['to another connection', { connectionId: 'con-2' }],
    ['to another field', { field: 'user' }],
    ['to a place whose names only run together', { connectionId: 'con-1","pass', field: '' }],
  ])('%s', async (_where, part) => {
    const stored = await seal(KEYS, PLACE, 'hunter2')
    expect(await reasonOf(unseal(KEYS, { ...PLACE, ...part }, stored))).toBe('tampered')
  })

  test('nor half of it: neither layer opens with the other layer of another place', async () => {
    const ours = await seal(KEYS, PLACE, 'hunter2')
    const theirs = await seal(KEYS, { ...PLACE, organizationId: 'org-2' }, 'hunter2')
    expect(await reasonOf(unseal(KEYS, PLACE, { ...ours, wrappedKey: theirs.wrappedKey }))).toBe('tampered')
    expect(await reasonOf(unseal(KEYS, PLACE, { ...ours, sealed: theirs.sealed }))).toBe('tampered')
  })

  test('to any other place at all', async () => {
    const place = fc.record({ organizationId: fc.string(), connectionId: fc.string(), field: fc.string() })
    await fc.assert(
      fc.asyncProperty(place, place, async (at, elsewhere) => {
        fc.pre(JSON.stringify(at) !== JSON.stringify(elsewhere))
        const stored = await seal(KEYS, at, 'hunter2')
        expect(await reasonOf(unseal(KEYS, elsewhere, stored))).toBe('tampered')
      }),
    )
  })
})

describe('keys', () => {
  test('a value opens with its own key alone', async () => {
    const stored = await seal(envKeyProvider(`a:${newKey()}`), PLACE, 'hunter2')
    expect(await reasonOf(unseal(envKeyProvider(`b:${newKey()}`), PLACE, stored))).toBe('unknown_key')
    expect(await reasonOf(unseal(envKeyProvider(`a:${newKey()}`), PLACE, stored))).toBe('tampered')
    const renamed = { ...stored, keyId: 'b' }
    expect(await reasonOf(unseal(envKeyProvider(`b:${newKey()}`), PLACE, renamed))).toBe('tampered')
  })

  test('a key under another name does not open what it sealed under the first', async () => {
    const key = newKey()
    const stored = await seal(envKeyProvider(`a:${key}`), PLACE, 'hunter2')
    expect(await reasonOf(unseal(envKeyProvider(`b:${key}`), PLACE, { ...stored, keyId: 'b' }))).toBe('tampered')
  })

  test('an old key behind the new one still opens, and the new one seals', async () => {
    const [old, next] = [newKey(), newKey()]
    const stored = await seal(envKeyProvider(old), PLACE, 'hunter2')
    const both = envKeyProvider(`${next}, ${old}`)
    expect(await unseal(both, PLACE, stored)).toBe('hunter2')
    expect((await seal(both, PLACE, 'x')).keyId).toBe(envKeyProvider(next).currentId)
  })

  test('what goes wrong names neither secret nor key', async () => {
    const key = newKey()
    const stored = await seal(envKeyProvider(key), PLACE, 'hunter2')
    const error = await unseal(envKeyProvider(key), { ...PLACE, field: 'x' }, stored).catch((raised: unknown) => raised)
    const said = [String(error), JSON.stringify(error), error instanceof Error ? error.stack : ''].join('\n')
    for (const secret of ['hunter2', key, Buffer.from(stored.wrappedKey).toString('hex')])
      expect(said).not.toContain(secret)
    expect(error instanceof Error ? error.cause : null).toBeUndefined()
  })
})
