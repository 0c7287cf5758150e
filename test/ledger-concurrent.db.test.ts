import { setImmediate as turn } from 'node:timers/promises'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { v7 as uuidv7 } from 'uuid'
import type { ClaimAnswer } from '../src/approvals/approval-store.ts'
import { approvalStore } from '../src/storage/approval-store.ts'
import { callLedger } from '../src/storage/call-ledger.ts'
import type { Database } from '../src/storage/database.ts'
import { argumentsHash } from '../src/tools/canonical.ts'
import type { AdmittedCall, DecisionRecord, FileOutcome } from '../src/tools/invoker.ts'
import { emptySuccess, success } from '../src/tools/result.ts'
import { admittedCall, allowing } from './setup/admitted-call.ts'
import { testDatabase, type TestDatabase } from './setup/database.ts'

let db: TestDatabase
let pools: readonly Database[]

const ORGANIZATION = uuidv7()
const DEFINITION = uuidv7()
const BY = '{"kind":"system","id":"test","name":"test"}'
/** One key is one text; both tools take it, and their claims are apart. */
const TEXTS = ['a', 'b', 'c'] as const
const TOOLS = { 'crm.note': 'reclaim', 'mail.post': 'ask' } as const
type Tool = keyof typeof TOOLS

/** Every state a claim was ever in, in the order the row lock gave. */
const AUDIT = `
  CREATE TABLE public.claim_audit (
    at bigserial PRIMARY KEY, run_id uuid, scope text, key text, op text, attempt integer, owner uuid, status text,
    said_by text, lapsed boolean);
  CREATE FUNCTION public.audit_claim() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE k agent.idempotency_keys;
    BEGIN
      IF TG_OP = 'DELETE' THEN k := OLD; ELSE k := NEW; END IF;
      INSERT INTO public.claim_audit (run_id, scope, key, op, attempt, owner, status, said_by, lapsed)
      VALUES (k.run_id, k.scope, k.key, TG_OP, k.attempt, k.owner, k.status, k.response -> 'data' ->> 'by',
        TG_OP = 'UPDATE' AND OLD.lease_until <= clock_timestamp());
      RETURN NULL;
    END $$;
  CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON agent.idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION public.audit_claim()`

beforeAll(async () => {
  db = await testDatabase()
  pools = [db.database, await db.another()]
  await db.database.execute(`
    INSERT INTO agent.organizations (id, slug, name) VALUES ('${ORGANIZATION}', 'acme', 'acme');
    INSERT INTO agent.definitions (id, organization_id, slug, version, body, body_hash)
      VALUES ('${DEFINITION}', '${ORGANIZATION}', 'outreach', 1, '{}', '\\x00');
    INSERT INTO agent.grants (id, organization_id, definition, tool, granted_by) VALUES
      ('${uuidv7()}', '${ORGANIZATION}', 'outreach', 'crm.note', '${BY}'),
      ('${uuidv7()}', '${ORGANIZATION}', 'outreach', 'mail.post', '${BY}');
    ${AUDIT}`)
})
afterAll(() => db.close())

async function newRun(): Promise<string> {
  const runId = uuidv7()
  await db.database.execute(`
    INSERT INTO agent.runs (id, organization_id, root_run_id, definition_id, definition, status, source, input, snapshot, deadline)
      VALUES ('${runId}', '${ORGANIZATION}', '${runId}', '${DEFINITION}', 'outreach', 'running', 'api', '{}', '{}', now() + interval '1 day');
    INSERT INTO agent.run_control (run_id, organization_id) VALUES ('${runId}', '${ORGANIZATION}')`)
  return runId
}

interface Step {
  readonly tool: Tool
  readonly text: number
  readonly ending: 'complete' | 'release' | 'hold' | 'die'
  /** Turns of the event loop between the claim and its ending. */
  readonly patience: number
}

interface Chaos {
  readonly do: 'lapse' | 'approve' | 'arrived' | 'send again' | 'reject' | 'expire'
  readonly which: number
  readonly patience: number
}

const patience = fc.nat({ max: 12 })
const step: fc.Arbitrary<Step> = fc.record({
  tool: fc.constantFrom<Tool[]>('crm.note', 'mail.post'),
  text: fc.nat({ max: TEXTS.length - 1 }),
  ending: fc.constantFrom('complete' as const, 'release' as const, 'hold' as const, 'die' as const),
  patience,
})
const chaos: fc.Arbitrary<Chaos> = fc.record({
  do: fc.constantFrom<Chaos['do'][]>('lapse', 'lapse', 'lapse', 'approve', 'arrived', 'send again', 'reject', 'expire'),
  which: fc.nat({ max: 5 }),
  patience,
})
const WORKERS = 6
const crowd = fc.record({
  workers: fc.array(fc.array(step, { minLength: 4, maxLength: 8 }), { minLength: WORKERS, maxLength: WORKERS }),
  chaos: fc.array(fc.array(chaos, { minLength: 6, maxLength: 12 }), { minLength: 2, maxLength: 2 }),
})

/** What the workers of one run were told. */
interface Told {
  readonly claimed: { readonly span: string; readonly attempt: number }[]
  readonly completed: string[]
  readonly released: string[]
  /** Answers read back, by scope and key. */
  readonly read: { readonly claim: string; readonly data: unknown }[]
  readonly filed: { readonly tool: Tool; readonly key: string; readonly kind: string; readonly outcome: FileOutcome }[]
}

const ASK: DecisionRecord = { ...allowing(), outcome: 'require_approval' }
const LEFT: ClaimAnswer = { kind: 'complete', result: emptySuccess() }

function callOf(runId: string, { tool, text }: Pick<Step, 'tool' | 'text'>): AdmittedCall & { readonly key: string } {
  const argsHash = argumentsHash({ text: TEXTS[text] ?? 'a' })
  const key = `${runId}:agent:${argsHash}`
  const call = admittedCall({ organizationId: ORGANIZATION, runId, argsHash, key, spec: { onUnknown: TOOLS[tool] } })
  return { ...call, key, toolName: tool, spec: { ...call.spec, name: tool } }
}

async function work(database: Database, runId: string, plan: { steps: readonly Step[]; told: Told }): Promise<void> {
  const ledger = callLedger(database, { newId: () => uuidv7() })
  const { told } = plan
  for (const step of plan.steps) {
    const call = callOf(runId, step)
    const name = `tool.${step.tool} ${call.key}`
    const ask = async (kind: 'action' | 'outcome') => {
      const hold = {
        approvalId: uuidv7(),
        kind,
        preview: null,
        decision: ASK,
        ttlS: 3600,
        pauseId: null,
        connectionId: null,
      }
      told.filed.push({ tool: step.tool, key: call.key, kind, outcome: await ledger.file(call, hold) })
    }
    const state = await ledger.open(call, { spend: false, authorizedBy: [] })
    if (state.response !== null) told.read.push({ claim: name, data: state.response.result.data })
    const claim = await ledger.claim(call, allowing(), { rulesVersion: 0, leaseS: 3600 })
    if (claim.kind === 'completed') told.read.push({ claim: name, data: claim.response.result.data })
    if (claim.kind === 'unknown') await ask('outcome')
    if (claim.kind === 'processing') await ask('action')
    if (claim.kind === 'moved' || claim.kind === 'conflict') throw new Error(`nothing moved, and it is ${claim.kind}`)
    if (claim.kind !== 'claimed') continue
    told.claimed.push({ span: call.span.id, attempt: claim.attempt })
    for (let wait = 0; wait < step.patience; wait += 1) await turn()
    if (step.ending === 'die') continue
    const closed = await ledger.close(call, {
      claim: step.ending,
      result: success({ by: call.span.id }, { truncated: false, untrusted: false }),
      status: 'ok',
      code: null,
      decision: null,
      replayed: false,
      attempt: claim.attempt,
    })
    if (closed === 'owned' && step.ending === 'complete') told.completed.push(call.span.id)
    if (closed === 'owned' && step.ending === 'release') told.released.push(call.span.id)
  }
}

/** Time and people, at once with the workers. */
async function disturb(database: Database, runId: string, events: readonly Chaos[]): Promise<void> {
  const approvals = approvalStore(database)
  for (const event of events) {
    for (let wait = 0; wait < event.patience; wait += 1) await turn()
    if (event.do === 'lapse') {
      const key = `${runId}:agent:${argumentsHash({ text: TEXTS[event.which % TEXTS.length] ?? 'a' })}`
      await database.execute(
        `UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 hour' WHERE key = '${key}' AND status = 'processing'`,
      )
      continue
    }
    const { items } = await approvals.list(ORGANIZATION, { runId, state: 'pending', limit: 50, cursor: null })
    // One open question a key, whoever looks and whenever.
    expect(new Set(items.map((item) => item.argumentsHash)).size).toBe(items.length)
    const question = items[event.which % Math.max(1, items.length)]
    if (question === undefined) continue
    if (event.do === 'expire') {
      await database.execute(
        `UPDATE agent.approvals SET expires_at = now() - interval '1 hour' WHERE id = '${question.id}'`,
      )
      await approvals.expireDue(50, LEFT)
      continue
    }
    const state = event.do === 'reject' ? ('rejected' as const) : ('approved' as const)
    const claim = question.kind === 'action' ? null : event.do === 'send again' ? ({ kind: 'reclaim' } as const) : LEFT
    await approvals.answer(ORGANIZATION, question.id, ({ approval }) => ({
      write: approval.state === 'pending' ? { state, by: null, note: null, claim } : null,
      value: null,
    }))
  }
}

interface AuditRow {
  readonly scope: string
  readonly key: string
  readonly op: 'INSERT' | 'UPDATE' | 'DELETE'
  readonly attempt: number
  readonly owner: string
  readonly status: 'processing' | 'completed' | 'reclaimable'
  readonly said_by: string | null
  readonly lapsed: boolean
}

/** The life of one claim, change by change. */
function checkLife(rows: readonly AuditRow[]): void {
  let last: AuditRow | null = null
  for (const row of rows) {
    if (row.op === 'INSERT') {
      expect(last, 'a claim was made while there was one').toBeNull()
      expect([row.attempt, row.status]).toEqual([1, 'processing'])
    } else {
      expect(last).not.toBeNull()
      expect(last?.status, 'a completed claim changed').not.toBe('completed')
    }
    if (row.op === 'UPDATE' && row.owner !== last?.owner) {
      expect(row.attempt).toBe((last?.attempt ?? 0) + 1)
      const free = last?.status === 'reclaimable' || (row.lapsed && row.scope === 'tool.crm.note')
      expect(free, 'a live claim, or one a person has to judge, was taken over').toBe(true)
    }
    if (row.op === 'UPDATE' && row.owner === last?.owner) {
      expect(row.attempt).toBe(last.attempt)
      if (row.status === 'completed') expect(row.said_by === row.owner || row.lapsed).toBe(true)
    }
    if (row.op === 'DELETE') expect([row.owner, row.status]).toEqual([last?.owner, 'processing'])
    last = row.op === 'DELETE' ? null : row
  }
}

async function rowsOf<Row>(text: string): Promise<readonly Row[]> {
  return (await db.database.query<Row>({ name: '', text })).rows
}

async function checkClaims(runId: string, told: Told): Promise<void> {
  const audit = await rowsOf<AuditRow>(`SELECT * FROM public.claim_audit WHERE run_id = '${runId}' ORDER BY at`)
  const lives = Map.groupBy(audit, (row) => `${row.scope} ${row.key}`)
  for (const rows of lives.values()) checkLife(rows)
  // What workers were told is what happened, and nothing else happened.
  const owners = audit.filter((row, index) => firstOf(audit, index) && row.op !== 'DELETE').map((row) => row.owner)
  expect(told.claimed.map((claim) => claim.span).toSorted()).toEqual(owners.toSorted())
  for (const { span, attempt } of told.claimed) expect(audit.find((row) => row.owner === span)?.attempt).toBe(attempt)
  const said = audit.filter((row) => row.status === 'completed' && row.said_by !== null)
  expect(said.map((row) => row.said_by)).toEqual(said.map((row) => row.owner))
  expect(told.completed.toSorted()).toEqual(said.map((row) => row.owner).toSorted())
  // A claim that was taken over is not forgotten by a worker that gives it back.
  expect(audit.filter((row) => row.op === 'DELETE').every((row) => !tookOver(audit, row.owner))).toBe(true)
  expect(told.released.filter((owner) => !tookOver(audit, owner)).toSorted()).toEqual(
    audit
      .filter((row) => row.op === 'DELETE')
      .map((row) => row.owner)
      .toSorted(),
  )
  const stored = await rowsOf<{ claim: string; data: unknown }>(
    `SELECT scope || ' ' || key AS claim, response -> 'data' AS data FROM agent.idempotency_keys WHERE run_id = '${runId}' AND status = 'completed'`,
  )
  const answers = new Map(stored.map((row) => [row.claim, row.data]))
  for (const { claim, data } of told.read) expect(data).toEqual(answers.get(claim))
}

/** Whether this owner's claim followed one that was neither given back by a person nor forgotten. */
function tookOver(audit: readonly AuditRow[], owner: string): boolean {
  const first = audit.find((row) => row.owner === owner)
  if (first === undefined || first.op === 'INSERT') return false
  const before = audit
    .slice(0, audit.indexOf(first))
    .findLast((row) => row.scope === first.scope && row.key === first.key)
  return before?.status === 'processing'
}

function firstOf(audit: readonly AuditRow[], index: number): boolean {
  return audit.findIndex((row) => row.owner === audit[index]?.owner) === index
}

async function checkQuestions(runId: string, told: Told): Promise<void> {
  const questions = await rowsOf<{ id: string; key: string; kind: string; state: string; tool: string }>(
    `SELECT id, idempotency_key AS key, kind, state, action AS tool FROM agent.approvals WHERE run_id = '${runId}'`,
  )
  const byId = new Map(questions.map((question) => [question.id, question]))
  const filed = told.filed.flatMap(({ outcome }) => (outcome.kind === 'filed' ? [outcome.approvalId] : []))
  expect(filed.toSorted()).toEqual([...byId.keys()].toSorted())
  for (const { tool, key, kind, outcome } of told.filed) {
    if (outcome.kind === 'filed') expect(byId.get(outcome.approvalId)).toMatchObject({ key, kind, tool })
    if (outcome.kind === 'pending') {
      const standing = byId.get(outcome.approvalId)
      expect(standing?.key).toBe(key)
      expect(outcome.sameCall).toBe(standing?.tool === tool)
    }
    if (outcome.kind === 'rejected') {
      const about = questions.filter((one) => one.key === key && one.tool === tool && one.kind === 'action')
      expect(kind).toBe('action')
      expect(about.map((one) => one.state)).toContain('rejected')
    }
  }
}

const CROWDS = 25

test(`workers of two pools who fight over a few keys agree with every change that was made, ${CROWDS} times`, async () => {
  const seen = { claims: 0, takeovers: 0, questions: 0 }
  await fc.assert(
    fc.asyncProperty(crowd, async ({ workers, chaos }) => {
      const runId = await newRun()
      const told: Told = { claimed: [], completed: [], released: [], read: [], filed: [] }
      const pool = (index: number): Database => pools[index % pools.length] ?? db.database
      await Promise.all([
        ...workers.map((steps, index) => work(pool(index), runId, { steps, told })),
        ...chaos.map((events, index) => disturb(pool(index), runId, events)),
      ])
      await checkClaims(runId, told)
      await checkQuestions(runId, told)
      seen.claims += told.claimed.length
      seen.takeovers += told.claimed.filter((claim) => claim.attempt > 1).length
      seen.questions += told.filed.length
    }),
    // A race is not the same race twice, so a smaller one would prove nothing.
    { numRuns: CROWDS, endOnFailure: true },
  )
  // A crowd that never met would prove little.
  expect(seen.claims).toBeGreaterThan(CROWDS)
  expect(seen.takeovers).toBeGreaterThan(0)
  expect(seen.questions).toBeGreaterThan(0)
}, 60_000)
