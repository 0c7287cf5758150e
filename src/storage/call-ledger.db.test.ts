import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { admittedCall, allowing } from '../../test/setup/admitted-call.ts'
import { testDatabase, type TestDatabase, unusedOrganization } from '../../test/setup/database.ts'
import { readClaim, takeoverOf, type ClaimReading, type JournalRow } from '../decision/journal.ts'
import type { LimitPeriod } from '../decision/limits.ts'
import { plainSpec } from '../testing/plain-spec.ts'
import type { ToolSpec } from '../tools/models.ts'
import { emptySuccess } from '../tools/result.ts'
import { callLedger } from './call-ledger.ts'
import { unnamed } from './statement.ts'

let db: TestDatabase

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())

const HASHES = ['aa'.repeat(32), 'bb'.repeat(32)] as const
const RULES = ['first', 'second'] as const
const VERSION = 5
const LEASE_S = 60

/** What may stand in the database when a call is claimed. Seconds are from now. */
interface Standing {
  readonly row: {
    readonly status: JournalRow['status']
    readonly hash: string
    readonly attempt: number
    readonly leaseS: number
    /** When the key was first taken. */
    readonly firstS: number
    readonly counted: readonly string[]
  } | null
  readonly spec: Pick<ToolSpec, 'onUnknown' | 'downstreamKey' | 'downstreamKeyS' | 'timeoutS'>
  readonly rulesVersion: number
  readonly tool: boolean | null
  readonly grant: 'held' | 'withdrawn' | 'none' | 'of another agent' | 'of another tool'
  readonly control: 'none' | 'open' | 'cancelled'
  readonly limits: readonly {
    readonly rule: string
    readonly per: LimitPeriod
    readonly max: number | null
    readonly used: number
  }[]
}

const mostly = <T>(usual: readonly T[], seldom: readonly T[]): fc.Arbitrary<T> =>
  fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...usual) }, { weight: 1, arbitrary: fc.constantFrom(...seldom) })

/** Leaning towards what lets a call through, so that every answer is met often. */
const standing: fc.Arbitrary<Standing> = fc.record({
  row: fc.option(
    fc.record({
      status: fc.constantFrom('processing', 'completed', 'reclaimable'),
      hash: fc.constantFrom(HASHES[0], HASHES[0], HASHES[0], HASHES[1]),
      attempt: fc.integer({ min: 1, max: 4 }),
      leaseS: fc.constantFrom(-3600, -1, 600),
      firstS: fc.constantFrom(-9000, -3500, -600),
      counted: fc.subarray([...RULES]),
    }),
    { freq: 4 },
  ),
  spec: fc.record({
    onUnknown: fc.constantFrom('reclaim', 'reclaim', 'ask'),
    downstreamKey: fc.boolean(),
    downstreamKeyS: fc.constantFrom(null, 3600),
    timeoutS: fc.constantFrom(30, 120),
  }),
  rulesVersion: mostly<number>([VERSION], [VERSION - 1, VERSION + 1]),
  tool: mostly<boolean | null>([null, true], [false]),
  grant: mostly<Standing['grant']>(['held'], ['withdrawn', 'none', 'of another agent', 'of another tool']),
  control: mostly<Standing['control']>(['none', 'open'], ['cancelled']),
  limits: fc
    .tuple(
      ...RULES.map((rule) =>
        fc.option(
          fc.record({
            rule: fc.constant(rule),
            per: fc.constantFrom('run' as const, 'hour' as const, 'day' as const),
            max: fc.option(fc.integer({ min: 1, max: 3 }), { freq: 4 }),
            used: fc.integer({ min: 0, max: 3 }),
          }),
        ),
      ),
    )
    .map((limits) => limits.filter((limit) => limit !== null)),
})

/** The pure twin of the claim, and of what a limit adds to it. */
function predicted({ row, spec, ...ground }: Standing): ClaimReading {
  const now = new Date(0)
  const journal: JournalRow | null =
    row === null
      ? null
      : {
          status: row.status,
          requestHash: row.hash,
          attempt: row.attempt,
          leaseUntil: new Date(row.leaseS * 1000),
          firstClaimedAt: new Date(row.firstS * 1000),
          claimedAt: now,
        }
  const unmoved =
    ground.rulesVersion === VERSION &&
    ground.tool !== false &&
    ground.grant === 'held' &&
    ground.control !== 'cancelled'
  const reading = readClaim(journal, { argsHash: HASHES[0], now, takeoverS: takeoverOf(spec) }, unmoved)
  const full = uncounted(row, ground).some(({ max, used }) => max !== null && used >= max)
  return reading === 'claimed' && full ? 'moved' : reading
}

function uncounted(row: Standing['row'], { limits }: Pick<Standing, 'limits'>): Standing['limits'] {
  return limits.filter(({ rule }) => row?.counted.includes(rule) !== true)
}

interface Place {
  readonly organizationId: string
  readonly runId: string
  readonly key: string
}

async function put({ row, ...ground }: Standing, { organizationId, runId, key }: Place): Promise<void> {
  const query = (text: string, values: readonly unknown[]) => db.database.query(unnamed(text), values)
  await query(
    "INSERT INTO agent.organizations (id, slug, name, rules_version) VALUES ($1::uuid, $1::uuid::text, 'x', $2)",
    [organizationId, ground.rulesVersion],
  )
  if (ground.tool !== null) {
    await query(
      "INSERT INTO agent.tool_states (organization_id, tool, enabled, changed_by) VALUES ($1, 'crm.note', $2, '{}')",
      [organizationId, ground.tool],
    )
  }
  if (ground.grant !== 'none') {
    await query(
      `INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by, revoked_at)
       VALUES (gen_random_uuid(), $1, $2, $3, '{}', CASE WHEN $4::boolean THEN now() END)`,
      [
        organizationId,
        ground.grant === 'of another agent' ? 'support' : 'outreach',
        ground.grant === 'of another tool' ? 'crm.search' : 'crm.note',
        ground.grant === 'withdrawn',
      ],
    )
  }
  if (ground.control !== 'none') {
    await query(
      'INSERT INTO agent.run_control (run_id, organization_id, cancel_requested_at) VALUES ($1, $2, CASE WHEN $3::boolean THEN now() END)',
      [runId, organizationId, ground.control === 'cancelled'],
    )
  }
  if (row !== null) {
    await query(
      `INSERT INTO agent.idempotency_keys (organization_id, scope, key, run_id, status, request_hash, attempt, owner, lease_until, response, counted, completed_at, first_claimed_at)
       VALUES ($1, 'tool.crm.note', $2, $3, $4, decode($5, 'hex'), $6, $3, now() + make_interval(secs => $7),
         $8::json, $9::jsonb, CASE WHEN $8::json IS NOT NULL THEN now() END, now() + make_interval(secs => $10))`,
      [
        organizationId,
        key,
        runId,
        row.status,
        row.hash,
        row.attempt,
        row.leaseS,
        row.status === 'completed' ? JSON.stringify(emptySuccess()) : null,
        row.counted.length === 0
          ? null
          : JSON.stringify(Object.fromEntries(row.counted.map((rule) => [rule, 'before']))),
        row.firstS,
      ],
    )
  }
  for (const { rule, per, used } of ground.limits) {
    await query(
      'INSERT INTO agent.rule_counters (organization_id, period, rule, used) VALUES ($1, agent.limit_period($2, $3::uuid), $4, $5)',
      [organizationId, per, runId, rule, used],
    )
  }
}

/** Everything a claim may write. */
async function written({ organizationId }: Place) {
  const all = async (table: string, columns: string) => {
    const text = `SELECT ${columns} FROM agent.${table} WHERE organization_id = $1::uuid`
    return (await db.database.query(unnamed(text), [organizationId])).rows
  }
  return {
    journal: await all('idempotency_keys', "*, encode(request_hash, 'hex') AS request_hash"),
    used: Object.fromEntries((await all('rule_counters', 'rule, used')).map((row) => [row['rule'], row['used']])),
    spans: await all('spans', 'id, status, name'),
    payloads: await all('span_payloads', 'span_id'),
    decisions: await all('policy_decisions', "span_id, outcome, encode(arguments_hash, 'hex') AS arguments_hash"),
  }
}

async function claimAndCompare(standing: Standing): Promise<ClaimReading> {
  const organizationId = await unusedOrganization(db)
  const place: Place = { organizationId, runId: randomUUID(), key: `k:${randomUUID()}` }
  await put(standing, place)
  const before = await written(place)
  const call = admittedCall({ ...place, argsHash: HASHES[0], spec: standing.spec })
  const ledger = callLedger(db.database, { newId: randomUUID })
  const outcome = await ledger.claim(call, allowing(standing.limits), { rulesVersion: VERSION, leaseS: LEASE_S })
  const expected = predicted(standing)
  expect(outcome.kind).toBe(expected)
  const after = await written(place)
  if (outcome.kind !== 'claimed') {
    expect(after).toEqual(before)
    return expected
  }
  const counts = uncounted(standing.row, standing)
  const attempt = (standing.row?.attempt ?? 0) + 1
  expect(outcome.attempt).toBe(attempt)
  const firstAt = (journal: typeof after.journal) => journal[0]?.['first_claimed_at']
  // Only an attempt that takes over a dead one goes on with its time.
  if (standing.row?.status === 'processing') expect(firstAt(after.journal)).toEqual(firstAt(before.journal))
  else expect(firstAt(after.journal)).toEqual(after.journal[0]?.['claimed_at'])
  expect(after.journal).toMatchObject([{ status: 'processing', request_hash: HASHES[0], attempt, owner: call.span.id }])
  const counted = (after.journal[0]?.['counted'] ?? {}) as Readonly<Record<string, string>>
  expect(Object.keys(counted).toSorted()).toEqual(
    [...(standing.row?.counted ?? []), ...counts.map(({ rule }) => rule)].toSorted(),
  )
  const used = { ...before.used }
  for (const { rule, used: past } of counts) used[rule] = past + 1
  expect(after.used).toEqual(used)
  expect(after.spans).toEqual([{ id: call.span.id, status: 'running', name: 'crm.note' }])
  expect(after.payloads).toEqual([{ span_id: call.span.id }])
  expect(after.decisions).toEqual([{ span_id: call.span.id, outcome: 'allow', arguments_hash: HASHES[0] }])
  return expected
}

test('the claim answers what its pure twin reads in the same rows, writes all of a claim, and nothing without one', async () => {
  const met = new Set<ClaimReading>()
  await fc.assert(
    fc.asyncProperty(standing, async (given) => {
      met.add(await claimAndCompare(given))
    }),
    { numRuns: 400 },
  )
  // Every answer was met, so that none of them was only believed.
  expect([...met].toSorted()).toEqual(['claimed', 'completed', 'conflict', 'moved', 'processing', 'unknown'])
}, 60_000)

describe('racers that insert one key', () => {
  test('see one winner and a live claim, never nothing', async () => {
    const organizationId = await unusedOrganization(db)
    const runId = randomUUID()
    const ground: Standing = {
      row: null,
      spec: plainSpec({ name: 'crm.note', sideEffects: 'write' }),
      rulesVersion: VERSION,
      tool: null,
      grant: 'held',
      control: 'open',
      limits: [],
    }
    await put(ground, { organizationId, runId, key: '' })
    const handles = [db.database, await db.another()]
    const ledgers = [...handles, ...handles].map((handle) => callLedger(handle, { newId: randomUUID }))
    for (let round = 0; round < 200; round += 1) {
      const outcomes = await Promise.all(
        ledgers.map((ledger) => {
          const call = admittedCall({ organizationId, runId, argsHash: HASHES[0], key: `k:${round}` })
          return ledger.claim(call, allowing(), { rulesVersion: VERSION, leaseS: LEASE_S })
        }),
      )
      const kinds = outcomes.map((outcome) => outcome.kind).toSorted()
      expect(kinds).toEqual(['claimed', 'processing', 'processing', 'processing'])
    }
  })
})
