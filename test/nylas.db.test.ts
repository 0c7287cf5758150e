import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { NYLAS_GRANT, type NylasSimulator, startNylasSimulator } from '../simulators/nylas.ts'
import type { VendorFault } from '../simulators/vendor-server.ts'
import { type Core, createCore } from '../src/core.ts'
import { aiSdkFramework } from '../src/frameworks/ai-sdk/index.ts'
import { emailTools, nylasTransport, recipientIsNew } from '../src/handlers/email/index.ts'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import { createRuntime } from '../src/runtime.ts'
import { withCrashPoints } from '../src/testing/crash-points.ts'
import { manualEngine } from '../src/testing/manual-engine.ts'
import { scriptedModel } from '../src/testing/scripted-model.ts'
import type { ToolInvocation } from '../src/tools/invocation.ts'
import { ApprovalRequired } from '../src/tools/invoker.ts'
import { canarySecret, watchedLogger, watchedReporter } from './setup/canary-sweep.ts'
import { empty, testDatabase, type TestDatabase } from './setup/database.ts'
import { APPROVER, inRun, STARTER } from './setup/world.ts'

let db: TestDatabase
const KEY = canarySecret('nylas')

let nylas: NylasSimulator
/** Of the vendor's hour. */
let vendorNow: number

beforeAll(async () => {
  db = await testDatabase()
})
afterAll(() => db.close())
beforeEach(async () => {
  await empty(db.database)
  vendorNow = 0
  nylas = await startNylasSimulator({ now: () => vendorNow, apiKey: KEY })
})
afterEach(() => nylas.close())

const LIMITS = { attemptMs: 20_000, totalMs: 20_000, pauseMs: 1, putOffRepeats: 2 }
const MAIL = { to: ['jo@acme.test'], subject: 'Hello', body: 'Hi Jo' }

interface Desk {
  readonly core: Core
  readonly organizationId: string
  readonly invocation: ToolInvocation
  send(args?: object): ReturnType<Core['invoker']['invoke']>
}

interface DeskOptions {
  readonly apiKey?: string
  readonly chooseAccount?: boolean
  /** Reached before and after every verb of the ledger; what it raises is a process that died there. */
  readonly reach?: (point: string) => void
}

/** One organization whose mailbox is a Nylas grant, and one run that sends with it. */
async function desk({ apiKey = KEY, chooseAccount = false, reach = () => undefined }: DeskOptions = {}): Promise<Desk> {
  const recipients = { known: async () => new Set<string>() }
  const transports = [nylasTransport({ access: { apiKey, baseUrl: nylas.url }, limits: LIMITS })]
  const core = await createCore({
    database: db.database,
    tools: emailTools({ recipients, transports, chooseAccount }),
    facts: [recipientIsNew(recipients)],
    logger: watchedLogger,
    reporter: watchedReporter,
    instrument: withCrashPoints(reach),
  })
  const { id: organizationId } = await core.stores.organizations.ensure({
    id: core.newId(),
    slug: 'acme',
    name: 'Acme',
    settings: { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } },
  })
  await mailbox({ core, organizationId }, 'team')
  const invocation = await invocationOf(core, organizationId)
  return {
    core,
    organizationId,
    invocation,
    send: (args = MAIL) =>
      inRun(core, invocation, () => core.invoker.invoke({ toolName: 'email.send', args }, invocation)),
  }
}

async function mailbox(
  { core, organizationId }: Pick<Desk, 'core' | 'organizationId'>,
  label: string,
  grantId = NYLAS_GRANT,
): Promise<string> {
  const settings = { kind: 'nylas', grantId, from: `${label}@acme.test` }
  await core.stores.connections.create({ organizationId, provider: 'email', label, settings })
  const listed = await core.stores.connections.list(organizationId, 'email')
  return listed.find((connection) => connection.label === label)?.id ?? ''
}

async function invocationOf(core: Core, organizationId: string): Promise<ToolInvocation> {
  const runtime = createRuntime(core, {
    frameworks: [
      aiSdkFramework({ resolveModel: () => scriptedModel({ name: 'scripted/mail', next: () => ({ text: '' }) }) }),
    ],
    engine: manualEngine(),
    defaultModel: 'scripted/mail',
  })
  await runtime.start()
  const agent = {
    slug: 'mailer',
    instructions: 'Send.',
    tools: ['email.send'],
    model: null,
    ceilings: DEFAULT_CEILINGS,
  }
  await runtime.runs.publish(organizationId, agent, STARTER)
  const row = await runtime.runs.start({
    organizationId,
    definition: 'mailer',
    input: 'go',
    startedBy: STARTER,
    source: 'library',
  })
  return {
    organizationId,
    userId: STARTER.id,
    runId: row.id,
    definitionId: row.definitionId,
    stepPath: 'agent',
    principal: row.snapshot.principal,
    ceilings: row.snapshot.ceilings,
    deadline: row.deadline,
    source: 'library',
    contracts: Object.fromEntries(core.registry.resolve(['email.send']).map((spec) => [spec.name, spec])),
  }
}

async function claims(): Promise<string[]> {
  const { rows } = await db.database.query<{ status: string }>({
    name: '',
    text: 'SELECT status FROM agent.idempotency_keys',
  })
  return rows.map(({ status }) => status)
}

/** What time does to a claim whose worker is gone: its lease runs out, and its first attempt was this long ago. */
async function ageClaim(seconds: number): Promise<void> {
  await db.database.execute(
    `UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second',
       first_claimed_at = now() - interval '${seconds} seconds'`,
  )
}

async function spanCodes({ core, organizationId, invocation }: Desk): Promise<(string | null)[]> {
  await core.ledger.flush()
  const tree = await core.stores.spans.tree(organizationId, invocation.runId)
  return tree.filter(({ name }) => name === 'email.send').map(({ code }) => code)
}

const refusal = (status: number, type: string): VendorFault => ({
  kind: 'answer',
  status,
  body: { error: { type, message: 'no' } },
})

describe('a lost answer', () => {
  test('T25 is read back with the same key: one message, a completed claim, and the next identical call replays', async () => {
    const d = await desk()
    nylas.play({ kind: 'lost_answer' })
    const first = await d.send()
    expect(first).toMatchObject({ ok: true, data: { accepted: MAIL.to, rejected: [] } })
    expect(nylas.delivered).toHaveLength(1)
    expect(await claims()).toEqual(['completed'])
    const again = await d.send()
    expect(again).toMatchObject({ ok: true, data: first.data })
    expect(again.meta.replayedFrom).toBeDefined()
    expect(nylas.requests).toHaveLength(2)
    expect(nylas.delivered).toHaveLength(1)
  })

  test('T25 that stays lost holds the claim; once the lease is over the same key finds the message that went out', async () => {
    const d = await desk()
    nylas.play({ kind: 'lost_answer' }, { kind: 'lost_answer' })
    expect((await d.send()).error).toMatchObject({ code: 'timeout', retryable: false })
    expect(await claims()).toEqual(['processing'])
    await ageClaim(60)
    expect(await d.send()).toMatchObject({ ok: true })
    expect(nylas.delivered).toHaveLength(1)
    expect(new Set(nylas.requests.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    expect(await spanCodes(d)).toEqual(['timeout', null])
  })
})

describe('a worker that dies after the message went out', () => {
  const died = new Error('the process died')

  async function crashed(): Promise<Desk> {
    let alive = true
    const d = await desk({
      reach: (point) => {
        if (!alive || point !== 'ledger.close:before') return
        alive = false
        throw died
      },
    })
    await expect(d.send()).rejects.toBe(died)
    expect(await claims()).toEqual(['processing'])
    expect(nylas.delivered).toHaveLength(1)
    return d
  }

  test('T25 is taken over inside the hour, and one message went out', async () => {
    const d = await crashed()
    await ageClaim(3_500)
    vendorNow = 3_500_000
    expect(await d.send()).toMatchObject({ ok: true })
    expect(nylas.delivered).toHaveLength(1)
    expect(nylas.requests).toHaveLength(2)
    expect(await claims()).toEqual(['completed'])
  })

  test('T25 is not forgotten by a takeover that was put off: the next one inside the hour finds the message', async () => {
    const d = await crashed()
    await ageClaim(1_800)
    vendorNow = 1_800_000
    nylas.play(...Array.from({ length: 3 }, () => refusal(429, 'api.rate_limit_error')))
    expect((await d.send()).error?.code).toBe('retryable_upstream')
    expect(await claims()).toEqual(['processing'])
    expect(await d.send()).toMatchObject({ ok: true })
    expect(nylas.delivered).toHaveLength(1)
  })

  test('T25 is not forgotten by a takeover that was put off: after the hour a person is asked', async () => {
    const d = await crashed()
    await ageClaim(3_500)
    vendorNow = 3_500_000
    nylas.play(...Array.from({ length: 3 }, () => refusal(429, 'api.rate_limit_error')))
    expect((await d.send()).error?.code).toBe('retryable_upstream')
    await ageClaim(3_600)
    vendorNow = 3_600_000
    await expect(d.send()).rejects.toBeInstanceOf(ApprovalRequired)
    expect(nylas.delivered).toHaveLength(1)
  })

  test('T25 after the hour a person is asked, who says that it arrived: one message went out', async () => {
    const d = await crashed()
    await ageClaim(3_600)
    vendorNow = 3_600_000
    await expect(d.send()).rejects.toBeInstanceOf(ApprovalRequired)
    expect(nylas.requests).toHaveLength(1)
    const { items } = await d.core.approvals.list(d.organizationId, { state: 'pending' })
    expect(items).toMatchObject([{ kind: 'outcome', tool: 'email.send' }])
    const [question] = items
    const answered = await d.core.approvals.approve({
      organizationId: d.organizationId,
      approvalId: question!.id,
      argumentsHash: question!.argumentsHash,
      decider: { actor: APPROVER, roles: [] },
      note: null,
      outcome: 'arrived',
    })
    expect(answered.kind).toBe('answered')
    expect(await d.send()).toMatchObject({ ok: true, data: null })
    expect(nylas.delivered).toHaveLength(1)
  })
})

describe('what the model reads, and what becomes of the claim', () => {
  test.each<[string, () => void, string, readonly string[]]>([
    ['an expired grant', () => nylas.grant(NYLAS_GRANT, { status: 'invalid' }), 'connection_expired', []],
    ['missing scopes', () => nylas.grant(NYLAS_GRANT, { maySend: false }), 'connection_expired', []],
    [
      'a limit that stays',
      () => nylas.play(...Array.from({ length: 3 }, () => refusal(429, 'api.rate_limit_error'))),
      'retryable_upstream',
      [],
    ],
    ['a refusal of the provider', () => nylas.provider({ kind: 'refused' }), 'unavailable', ['completed']],
    ['a message that reached some', () => nylas.provider({ kind: 'partial' }), 'timeout', ['processing']],
    ['a provider that timed out', () => nylas.provider({ kind: 'timed_out', sent: true }), 'timeout', ['processing']],
  ])('T31 T42 R28 %s', async (...[, arrange, code, left]) => {
    const d = await desk()
    arrange()
    const { ok, error, data } = await d.send()
    expect({ ok, code: error?.code, data }).toEqual({ ok: false, code, data: null })
    expect(await claims()).toEqual(left)
    expect(await spanCodes(d)).toEqual([code])
  })

  test('T45 a key of ours that is not accepted ends the segment, and the model reads nothing', async () => {
    const d = await desk({ apiKey: 'nyk_wrong' })
    await expect(d.send()).rejects.toMatchObject({ name: 'VendorError', trouble: 'authentication' })
    expect(await claims()).toEqual([])
    expect(nylas.delivered).toEqual([])
  })

  test('a mailbox that was connected again sends the next call', async () => {
    const d = await desk()
    nylas.grant(NYLAS_GRANT, { status: 'invalid' })
    expect((await d.send()).error?.code).toBe('connection_expired')
    nylas.grant(NYLAS_GRANT, { status: 'valid' })
    const [account] = await d.core.stores.connections.list(d.organizationId, 'email')
    expect(account?.state).toBe('needs_reauth')
    await d.core.stores.connections.setState({
      organizationId: d.organizationId,
      connectionId: account!.id,
      state: 'connected',
    })
    expect(await d.send({ ...MAIL, subject: 'Another' })).toMatchObject({ ok: true })
    expect(nylas.delivered).toHaveLength(1)
  })
})

describe('several mailboxes', () => {
  const SECOND = '00000000-0000-4000-8000-000000000003'

  test('the model chooses one by its id, and without a choice nothing is sent', async () => {
    const d = await desk({ chooseAccount: true })
    nylas.grant(SECOND, { email: 'sales@mailbox.test' })
    const sales = await mailbox(d, 'sales', SECOND)
    expect((await d.send()).error?.code).toBe('connection_ambiguous')
    expect(nylas.requests).toEqual([])
    expect(await d.send({ ...MAIL, connection_id: sales })).toMatchObject({ ok: true })
    expect(nylas.delivered).toMatchObject([{ grantId: SECOND, from: 'sales@acme.test' }])
  })

  test('T31 an id of nobody’s is answered like one that does not exist', async () => {
    const d = await desk({ chooseAccount: true })
    const result = await d.send({ ...MAIL, connection_id: '00000000-0000-4000-8000-0000000000ff' })
    expect(result.error?.code).toBe('connection_required')
    expect(nylas.requests).toEqual([])
  })
})
