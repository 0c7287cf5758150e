import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { startSmtpServer, type SmtpSimulator } from '../../simulators/smtp-server.ts'
import { createCore } from '../../src/core.ts'
import { emailTools, recipientIsNew } from '../../src/handlers/email/index.ts'
import { pgDatabase } from '../../src/storage/pg/index.ts'
import type { CrashPoint } from '../../src/testing/crash-points.ts'
import type { MatrixOrders, Scenario } from './matrix-worker.ts'

const WORKER = fileURLToPath(new URL('./matrix-worker.ts', import.meta.url))

/** Effects a scenario is to have, by receiver: notes by their text, mails by their address. */
export const EXPECTED: Readonly<Record<Scenario, readonly string[]>> = {
  write: ['note a'],
  send: ['mail jo@free.test'],
  'approved send': ['mail jo@held.test'],
  'batch of three': ['mail jo@held.test', 'mail sam@held.test', 'note a'],
  'reclaimed write': ['note a'],
}

/** Verbs that only read, or that a clock calls: a crash beside them is a crash beside their neighbours. */
const LEFT_OUT = new Set([
  'runs.due',
  'runs.beat',
  'runs.list',
  'runs.get',
  'runs.cancelRequested',
  'runs.lanePaused',
  'runs.spentCents',
])

/** Restarts after which a run that is still not over counts as wedged. */
const MAX_LIVES = 8

export interface MatrixCase {
  readonly scenario: Scenario
  readonly die: { readonly point: CrashPoint; readonly nth: number } | null
}

export interface MatrixResult extends MatrixCase {
  /** Whether the point was reached at all; a later life may have taken another way. */
  readonly killed: boolean
  /** What arrived, once for every time it arrived. */
  readonly effects: readonly string[]
  /** Questions about an unknown outcome that a person had to answer. */
  readonly asked: number
  readonly status: string
  readonly points: readonly (readonly [CrashPoint, number])[]
}

interface Receivers {
  readonly mail: SmtpSimulator
  readonly http: Awaited<ReturnType<typeof startReceiver>>
}

interface Life {
  readonly killed: boolean
  readonly status: string
  readonly points: readonly (readonly [CrashPoint, number])[]
}

/** Runs one case to the end of its run: kill, restart, answer what is asked, count what arrived. */
export async function runCase(postgresUrl: string, wanted: MatrixCase): Promise<MatrixResult> {
  const name = `crash_${randomBytes(6).toString('hex')}`
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-matrix-'))
  const receivers = { mail: await startSmtpServer({ outboxDir: folder }), http: await startReceiver() }
  await administer(postgresUrl, `CREATE DATABASE ${name} TEMPLATE bailiff_template`)
  const client = new Client({ connectionString: `${postgresUrl}${name}` })
  await client.connect()
  try {
    return await live(client, receivers, { ...wanted, url: `${postgresUrl}${name}` })
  } finally {
    await client.end()
    await receivers.mail.close()
    await receivers.http.close()
    await administer(postgresUrl, `DROP DATABASE ${name} WITH (FORCE)`)
    await rm(folder, { recursive: true, force: true })
  }
}

async function live(
  client: Client,
  receivers: Receivers,
  wanted: MatrixCase & { readonly url: string },
): Promise<MatrixResult> {
  const points = new Map<CrashPoint, number>()
  let killed = false
  let asked = 0
  let status = 'wedged'
  for (let count = 0; count < MAX_LIVES; count += 1) {
    const { rows } = await client.query<{ n: number }>('SELECT count(*)::int AS n FROM agent.runs')
    const life = await work({
      url: wanted.url,
      smtpPort: receivers.mail.port,
      httpPort: receivers.http.port,
      scenario: wanted.scenario,
      start: rows[0]?.n === 0,
      die: killed ? null : wanted.die,
    })
    for (const [point, times] of life.points) points.set(point, (points.get(point) ?? 0) + times)
    if (life.killed) {
      killed = true
      // A dead worker's lease would run out by itself; nothing else may wait for it here.
      await client.query(
        "UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second' WHERE status = 'processing'",
      )
      continue
    }
    if (life.status !== 'parked') {
      status = life.status
      break
    }
    asked += await answer(client, receivers, wanted.url)
  }
  const effects = [
    ...receivers.http.notes.map((text) => `note ${text}`),
    ...(await receivers.mail.messages()).flatMap(({ deliveredTo }) => deliveredTo.map((to) => `mail ${to}`)),
  ]
  return {
    scenario: wanted.scenario,
    die: wanted.die,
    killed,
    effects: effects.toSorted(),
    asked,
    status,
    points: [...points],
  }
}

/** A person who looks: approves what is proposed, and says of an unknown outcome what the receiver knows. */
async function answer(client: Client, receivers: Receivers, url: string): Promise<number> {
  const { rows } = await client.query<{ id: string; kind: string; arguments: { to?: string[]; note?: string } }>(
    "SELECT id, kind, arguments FROM agent.approvals WHERE state = 'pending'",
  )
  const database = await pgDatabase({ connectionString: url })
  const recipients = { known: async (): Promise<ReadonlySet<string>> => new Set() }
  const core = await createCore({ database, tools: emailTools({ recipients }), facts: [recipientIsNew(recipients)] })
  const organization = await core.stores.organizations.bySlug('crash')
  if (organization === null) throw new Error('the organization is gone')
  const mailed = new Set((await receivers.mail.messages()).flatMap(({ deliveredTo }) => deliveredTo))
  for (const { id, kind, arguments: args } of rows) {
    const approval = await core.approvals.get(organization.id, id)
    if (approval === null) throw new Error(`the approval ${id} is gone`)
    const arrived = args.to !== undefined && args.to.every((to) => mailed.has(to))
    const outcome = kind === 'outcome' ? { outcome: arrived ? ('arrived' as const) : ('send_again' as const) } : {}
    const answered = await core.approvals.approve({
      organizationId: organization.id,
      approvalId: id,
      argumentsHash: approval.argumentsHash,
      decider: { actor: { kind: 'user', id: 'ben', name: 'Ben' }, roles: [] },
      note: null,
      ...outcome,
    })
    if (answered.kind !== 'answered') throw new Error(`the answer was ${answered.kind}`)
  }
  await database.close()
  return rows.filter(({ kind }) => kind === 'outcome').length
}

async function work(orders: MatrixOrders): Promise<Life> {
  const child = spawn(process.execPath, [WORKER, JSON.stringify(orders)], { stdio: ['ignore', 'pipe', 'pipe'] })
  const [stdout, stderr] = [child.stdout, child.stderr].map((stream) => stream.setEncoding('utf8').toArray())
  const { promise, resolve } = Promise.withResolvers<{ code: number | null; signal: string | null }>()
  child.once('close', (code, signal) => resolve({ code, signal }))
  const { code, signal } = await promise
  if (signal === 'SIGKILL') return { killed: true, status: 'killed', points: [] }
  const line = ((await stdout) as string[]).join('').trim()
  if (code !== 0 || line === '')
    throw new Error(`the worker ended with ${code}: ${((await stderr) as string[]).join('')}`)
  return { killed: false, ...(JSON.parse(line) as Pick<Life, 'status' | 'points'>) }
}

/** Takes notes over HTTP. A note that comes again under a key it has seen is answered and not taken twice. */
async function startReceiver() {
  const notes: string[] = []
  const seen = new Set<string>()
  const server = createServer((request, response) => {
    void request
      .setEncoding('utf8')
      .toArray()
      .then((chunks) => {
        const key = request.headers['idempotency-key']
        if (typeof key !== 'string' || !seen.has(key)) notes.push((chunks as string[]).join(''))
        if (typeof key === 'string') seen.add(key)
        response.end('taken')
      })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    notes,
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise<void>((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}

async function administer(postgresUrl: string, text: string): Promise<void> {
  const admin = new Client({ connectionString: `${postgresUrl}postgres` })
  await admin.connect()
  try {
    await admin.query(text)
  } finally {
    await admin.end()
  }
}

/** Every place where a scenario can die: each point as often as an undisturbed run reaches it. */
export async function casesOf(postgresUrl: string, scenario: Scenario): Promise<readonly MatrixCase[]> {
  const { points } = await runCase(postgresUrl, { scenario, die: null })
  return points
    .filter(([point]) => !LEFT_OUT.has(point.split(':')[0] ?? ''))
    .flatMap(([point, times]) =>
      Array.from({ length: times }, (_, index): MatrixCase => ({ scenario, die: { point, nth: index + 1 } })),
    )
}
