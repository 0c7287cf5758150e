import { describe, expect, test } from 'vitest'
import { DEFAULT_APPROVAL_TTL_S, SAFE_DEFAULTS } from '../decision/stage-two.ts'
import type { PolicyCatalogue } from './catalogue.ts'
import type { PolicySettings, PolicySnapshot, PolicySource } from './policy.ts'
import { cachedPolicy } from './policy.ts'

const CATALOGUE: PolicyCatalogue = { tools: new Map([['email.send', []]]), egress: new Set(), facts: new Map() }

/** Answers what it was last told, and counts how often it was asked. */
class Source implements PolicySource {
  version = 1
  settings: PolicySettings = {}
  reads: string[] = []
  gate: Promise<void> = Promise.resolve()
  broken = false

  async read(organizationId: string): Promise<PolicySnapshot> {
    this.reads.push(organizationId)
    await this.gate
    if (this.broken) throw new Error('the database is away')
    const rule = {
      id: 'r1',
      name: `rule of ${organizationId}`,
      tools: ['email.send'],
      when: null,
      effect: 'deny' as const,
      mode: 'enforce' as const,
      approvers: [],
      ttlS: null,
      limit: null,
    }
    return { version: this.version, rules: [rule], settings: this.settings }
  }
}

test('a version is read and compiled once', async () => {
  const source = new Source()
  const policy = cachedPolicy(source, CATALOGUE)
  const first = await policy.load('org', 1)
  expect(await policy.load('org', 1)).toBe(first)
  expect(source.reads).toEqual(['org'])
  expect(first.version).toBe(1)
  expect(first.rules.version).toBe(1)
})

test('organizations do not share rules, although their versions are the same', async () => {
  const policy = cachedPolicy(new Source(), CATALOGUE)
  const names = async (organization: string): Promise<unknown> =>
    (await policy.load(organization, 1)).rules.matching('email.send').map(({ name }) => name)
  expect(await names('a')).toEqual(['rule of a'])
  expect(await names('b')).toEqual(['rule of b'])
  expect(await names('a')).toEqual(['rule of a'])
})

test('a newer version than asked for is answered, and kept under the version it has', async () => {
  const source = new Source()
  source.version = 5
  const policy = cachedPolicy(source, CATALOGUE)
  const newer = await policy.load('org', 4)
  expect(newer.version).toBe(5)
  expect(await policy.load('org', 5)).toBe(newer)
  expect(source.reads).toHaveLength(1)
  expect(await policy.load('org', 4)).toBe(newer)
  expect(source.reads).toHaveLength(2)
})

test('a source that is behind is refused: older rules may allow what the current ones do not', async () => {
  const source = new Source()
  const policy = cachedPolicy(source, CATALOGUE)
  await policy.load('org', 1)
  await expect(policy.load('org', 2)).rejects.toThrow('answered version 1 when 2 is current')
  source.version = 2
  expect((await policy.load('org', 2)).version).toBe(2)
})

test('callers that ask at the same time share one read', async () => {
  const source = new Source()
  const gate = Promise.withResolvers<void>()
  source.gate = gate.promise
  const policy = cachedPolicy(source, CATALOGUE)
  const loads = Promise.all(Array.from({ length: 20 }, () => policy.load('org', 1)))
  gate.resolve()
  expect(new Set(await loads).size).toBe(1)
  expect(source.reads).toHaveLength(1)
})

test('a failed read is not remembered', async () => {
  const source = new Source()
  source.broken = true
  const policy = cachedPolicy(source, CATALOGUE)
  await expect(policy.load('org', 1)).rejects.toThrow('away')
  source.broken = false
  expect((await policy.load('org', 1)).version).toBe(1)
})

test('the least recently used is forgotten first', async () => {
  const source = new Source()
  const policy = cachedPolicy(source, CATALOGUE, 2)
  for (const organization of ['a', 'b', 'a', 'c', 'a', 'b']) await policy.load(organization, 1)
  expect(source.reads).toEqual(['a', 'b', 'c', 'b'])
})

describe('settings', () => {
  async function loaded(settings: unknown): Promise<unknown> {
    const source = new Source()
    source.settings = settings as PolicySettings
    const { defaults, approvalTtlS, selfApproval } = await cachedPolicy(source, CATALOGUE).load('org', 1)
    return { defaults, approvalTtlS, selfApproval }
  }

  test('that are absent take the defaults of the platform: a send asks, nobody approves what they started', async () => {
    expect(await loaded({})).toEqual({
      defaults: SAFE_DEFAULTS,
      approvalTtlS: DEFAULT_APPROVAL_TTL_S,
      selfApproval: false,
    })
    expect(SAFE_DEFAULTS.send).toBe('require_approval')
  })

  test('that are there are taken, one by one', async () => {
    expect(
      await loaded({ policyDefaults: { write: 'require_approval' }, approvalTtlS: 60, selfApproval: true }),
    ).toEqual({
      defaults: { read: 'allow', write: 'require_approval', send: 'require_approval' },
      approvalTtlS: 60,
      selfApproval: true,
    })
  })

  test.each([
    [{ policyDefaults: { send: 'alow' } }],
    [{ policyDefaults: { send: null } }],
    [{ approvalTtlS: 0 }],
    [{ approvalTtlS: 'long' }],
    [{ approvalTtlS: 1e12 }],
  ])('that cannot be read stop every call of the organization: %j', async (settings) => {
    await expect(loaded(settings)).rejects.toThrow('of the organization')
  })

  test.each([['yes'], [1], [null]])('a self approval that is %j is none', async (selfApproval) => {
    expect(await loaded({ selfApproval })).toMatchObject({ selfApproval: false })
  })
})
