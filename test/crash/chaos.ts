import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { startSmtpServer, type SmtpSimulator } from '../../simulators/smtp-server.ts'
import type { Approval } from '../../src/approvals/approval-store.ts'
import type { Core } from '../../src/core.ts'
import type { Runtime } from '../../src/runtime.ts'
import { unnamed } from '../../src/storage/statement.ts'
import { auditLanes, lanePeaks, type LanePeak } from '../lane-audit.ts'
import {
  CHAOS_AGENT,
  CHAOS_LIMITS,
  CHAOS_RULES,
  CHAOS_WORKFLOW,
  chaosDeployment,
  DECIDER,
  recipientsOf,
  STARTER,
  type ChaosDeployment,
} from './chaos-deployment.ts'
import { ChaosOutbox } from './chaos-outbox.ts'
import { ChaosProcesses, tick } from './chaos-processes.ts'

export interface ChaosOptions {
  /** Superuser URL that ends in `/`, on a server with the template database. */
  readonly postgresUrl: string
  /** How long servers are killed; what is left then is finished in peace. */
  readonly seconds: number
  readonly runs: number
  readonly processes: number
  readonly killEveryMs: number
  /**
   * Ends the leases of a killed server's calls at once, as its own minute would. Without it a call that was cut off is
   * asked about when its lease has run out.
   */
  readonly endLeases: boolean
  readonly seed: number
}

export interface ChaosFigures {
  /** `started` here; the runs that workflows started stand among the others by their status. */
  readonly runs: {
    readonly started: number
    readonly byStatus: Readonly<Record<string, number>>
    readonly open: number
  }
  readonly mails: {
    readonly expected: number
    readonly arrived: number
    readonly messageIds: number
    readonly duplicates: readonly string[]
    readonly losses: readonly string[]
  }
  readonly questions: {
    readonly action: number
    readonly arrived: number
    readonly sendAgain: number
    readonly pending: number
  }
  readonly lanes: readonly (LanePeak & { readonly limit: number })[]
  readonly processes: {
    readonly started: number
    readonly kills: number
    readonly stops: number
    readonly lost: number
  }
  readonly left: {
    readonly orphans: number
    readonly forced: number
    readonly claims: number
    readonly running: number
  }
  readonly pauses: number
  readonly seconds: { readonly chaos: number; readonly rest: number }
  readonly faults: readonly string[]
}

/** Milliseconds after the chaos in which everything has to end: two leases, and the time to look. */
const REST_MS = 180_000
/** Milliseconds until a question is put to another server. */
const DOUBT_MS = 1_500
/** Milliseconds after which a call that a stopped server was making has come to its end. */
const SETTLING_MS = 4_000

const END_LEASES = unnamed(
  "UPDATE agent.idempotency_keys SET lease_until = clock_timestamp() WHERE status = 'processing' AND run_id = ANY($1::uuid[])",
)
const LOOK_AGAIN = unnamed(
  "UPDATE agent.runs SET wake_at = clock_timestamp() WHERE status = 'parked' AND id = ANY($1::uuid[])",
)
const ABANDONED = unnamed(
  `SELECT DISTINCT r.id FROM agent.runs r JOIN agent.idempotency_keys k ON k.run_id = r.id
   WHERE r.status = 'parked' AND k.status = 'processing' AND k.lease_until > clock_timestamp()`,
)

/** Runs a deployment of several servers on one database, kills them at random, and counts what came of it. */
export async function runChaos(options: ChaosOptions): Promise<ChaosFigures> {
  const name = `chaos_${randomBytes(6).toString('hex')}`
  const folder = await mkdtemp(join(tmpdir(), 'bailiff-chaos-'))
  const mail = await startSmtpServer({ outboxDir: folder, faults: { delayMs: 40 } })
  await administer(options.postgresUrl, `CREATE DATABASE ${name} TEMPLATE bailiff_template`)
  const chaos = await Chaos.prepare({ ...options, url: `${options.postgresUrl}${name}`, mail, folder })
  try {
    return await chaos.run()
  } finally {
    await chaos.close()
    await mail.close()
    await administer(options.postgresUrl, `DROP DATABASE ${name} WITH (FORCE)`)
    await rm(folder, { recursive: true, force: true })
  }
}

interface Ground extends ChaosOptions {
  readonly url: string
  readonly mail: SmtpSimulator
  readonly folder: string
}

class Chaos {
  readonly #ground: Ground
  readonly #core: Core
  readonly #runtime: Runtime
  readonly #organizationId: string
  readonly #outbox: ChaosOutbox
  readonly #processes: ChaosProcesses
  readonly #random: () => number
  readonly #told = new Map<string, number>()
  readonly #answers = { arrived: 0, sendAgain: 0 }
  readonly #asked = new Set<string>()
  #started = 0
  #pauses = 0

  private constructor(ground: Ground, { core, runtime, organizationId }: ChaosDeployment) {
    this.#ground = ground
    this.#core = core
    this.#runtime = runtime
    this.#organizationId = organizationId
    this.#outbox = new ChaosOutbox(ground.folder)
    this.#random = seeded(ground.seed)
    this.#processes = new ChaosProcesses({ url: ground.url }, this.#random)
  }

  static async prepare(ground: Ground): Promise<Chaos> {
    const deployment = await chaosDeployment(ground.url, ground.mail.port)
    await auditLanes(deployment.core.database)
    return new Chaos(ground, deployment)
  }

  async run(): Promise<ChaosFigures> {
    const { seconds, processes } = this.#ground
    this.#processes.start(processes)
    await this.#processes.someReady()
    const began = Date.now()
    const until = began + seconds * 1000
    await Promise.all([
      this.#startRuns(began),
      this.#killUntil(until),
      this.#freezeUntil(until),
      this.#pauseUntil(began, until),
      this.#answerWhile(() => Date.now() < until),
    ])
    const chaosEnded = Date.now()
    if (this.#ground.endLeases) await this.#endAbandonedLeases()
    await this.#answerWhile(async () => (await this.#open()) > 0 && Date.now() < chaosEnded + REST_MS)
    const rested = Date.now()
    const { forced, orphans } = await this.#processes.end()
    return this.#figures(
      { forced, orphans },
      { chaos: (chaosEnded - began) / 1000, rest: (rested - chaosEnded) / 1000 },
    )
  }

  async close(): Promise<void> {
    await this.#processes.end()
    await this.#core.database.close()
  }

  /** Over three quarters of the time, so that there is something to kill until the end. */
  async #startRuns(began: number): Promise<void> {
    const { runs, seconds } = this.#ground
    const every = (seconds * 750) / runs
    for (let nth = 0; nth < runs; nth += 1) {
      await tick(Math.max(0, began + nth * every - Date.now()))
      const run = await this.#runtime.runs.start({
        organizationId: this.#organizationId,
        definition: nth % 2 === 0 ? CHAOS_AGENT.slug : CHAOS_WORKFLOW.slug,
        input: String(nth),
        startedBy: STARTER,
        source: 'api',
        lane: nth % 3 === 0 ? 'batch' : 'interactive',
      })
      this.#started += 1
      // Half of the wake-ups are lost: the sweeps have to find those.
      if (nth % 4 < 2) this.#processes.tell({ do: 'wake', runId: run.id })
    }
  }

  async #killUntil(until: number): Promise<void> {
    for (;;) {
      await tick(this.#ground.killEveryMs)
      if (Date.now() >= until) return
      const held = await this.#processes.kill()
      if (this.#ground.endLeases) await this.#endLeases(held)
    }
  }

  /** Of calls whose process is gone, so that nobody waits for them. */
  async #endLeases(runIds: readonly string[]): Promise<void> {
    await this.#core.database.query(END_LEASES, [runIds])
    await this.#core.database.query(LOOK_AGAIN, [runIds])
  }

  /** Once nobody is killed or stopped any more, a call of a parked run has nobody who makes it. */
  async #endAbandonedLeases(): Promise<void> {
    const until = Date.now() + SETTLING_MS
    await this.#answerWhile(() => Date.now() < until)
    const { rows } = await this.#core.database.query<{ id: string }>(ABANDONED)
    await this.#endLeases(rows.map(({ id }) => id))
  }

  async #freezeUntil(until: number): Promise<void> {
    const ms = CHAOS_RULES.staleS * 1000 + 1_500
    for (;;) {
      await tick(ms)
      if (Date.now() + ms >= until) return
      await this.#processes.freeze(ms)
    }
  }

  /** Twice, for a tenth of the time each. */
  async #pauseUntil(began: number, until: number): Promise<void> {
    const lane = { organizationId: this.#organizationId, lane: 'interactive' } as const
    const length = until - began
    for (const at of [0.25, 0.6]) {
      await tick(Math.max(0, began + at * length - Date.now()))
      if (await this.#runtime.lanes.pause(lane, DECIDER.actor)) this.#pauses += 1
      await tick(length / 10)
      await this.#runtime.lanes.resume(lane)
    }
  }

  async #answerWhile(going: () => boolean | Promise<boolean>): Promise<void> {
    while (await going()) {
      const { items } = await this.#core.approvals.list(this.#organizationId, { state: 'pending', limit: 200 })
      for (const approval of items) await this.#answer(approval)
      await tick(150)
    }
  }

  /** Says it to one of the servers, and again to another one while the question stands: the first may have died of it. */
  async #answer(approval: Approval): Promise<void> {
    const { id, kind, argumentsHash } = approval
    if ((this.#told.get(id) ?? 0) > Date.now() - DOUBT_MS) return
    const outcome = kind === 'outcome' ? await this.#lookedUp(approval) : null
    const told = this.#processes.tell({
      do: 'approve',
      organizationId: this.#organizationId,
      approvalId: id,
      argumentsHash,
      outcome,
    })
    if (!told) return
    this.#told.set(id, Date.now())
    if (this.#asked.has(id)) return
    this.#asked.add(id)
    if (outcome === 'arrived') this.#answers.arrived += 1
    if (outcome === 'send_again') this.#answers.sendAgain += 1
  }

  /** A person who looks into the outbox. */
  async #lookedUp({ arguments: args }: Approval): Promise<'arrived' | 'send_again'> {
    const { byRecipient } = await this.#outbox.look()
    const to = args['to'] as readonly string[]
    return to.every((address) => byRecipient.has(address)) ? 'arrived' : 'send_again'
  }

  async #open(): Promise<number> {
    return this.#count("SELECT count(*)::integer AS n FROM agent.runs WHERE status IN ('queued', 'running', 'parked')")
  }

  async #count(text: string): Promise<number> {
    const { rows } = await this.#core.database.query<{ n: number }>(unnamed(text))
    return rows[0]?.n ?? 0
  }

  async #figures(
    left: { readonly forced: number; readonly orphans: number },
    seconds: ChaosFigures['seconds'],
  ): Promise<ChaosFigures> {
    const { runs } = this.#ground
    const { byRecipient, byMessageId } = await this.#outbox.look()
    const expected = Array.from({ length: runs }, (_, nth) => recipientsOf(String(nth))).flat()
    const more = (counts: ReadonlyMap<string, number>) => [...counts].filter(([, n]) => n > 1).map(([key]) => key)
    const { rows } = await this.#core.database.query<{ status: string; n: number }>(
      unnamed('SELECT status, count(*)::integer AS n FROM agent.runs GROUP BY status ORDER BY status'),
    )
    return {
      runs: {
        started: this.#started,
        byStatus: Object.fromEntries(rows.map(({ status, n }) => [status, n])),
        open: await this.#open(),
      },
      mails: {
        expected: expected.length,
        arrived: [...byRecipient.values()].reduce((sum, n) => sum + n, 0),
        messageIds: byMessageId.size,
        duplicates: [...more(byRecipient), ...more(byMessageId)],
        losses: expected.filter((address) => !byRecipient.has(address)),
      },
      questions: {
        action: await this.#count("SELECT count(*)::integer AS n FROM agent.approvals WHERE kind = 'action'"),
        ...this.#answers,
        pending: await this.#count("SELECT count(*)::integer AS n FROM agent.approvals WHERE state = 'pending'"),
      },
      lanes: (await lanePeaks(this.#core.database)).map((peak) => ({
        ...peak,
        limit: peak.lane === 'batch' ? CHAOS_LIMITS.batch : CHAOS_LIMITS.interactive,
      })),
      processes: this.#processes.counts,
      left: {
        ...left,
        claims: await this.#count(
          "SELECT count(*)::integer AS n FROM agent.idempotency_keys WHERE status = 'processing'",
        ),
        running: await this.#count("SELECT count(*)::integer AS n FROM agent.runs WHERE status = 'running'"),
      },
      pauses: this.#pauses,
      seconds,
      faults: this.#processes.faults,
    }
  }
}

/** The same numbers for the same seed: which process dies is repeatable, what it was doing is not. */
function seeded(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
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
