import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { syncRules } from '../src/bailiff.ts'
import type { Approval } from '../src/approvals/approval-store.ts'
import { DEFAULT_LANE_LIMITS } from '../src/runs/lane.ts'
import type { RunRow } from '../src/runs/run-store.ts'
import type { Database } from '../src/storage/database.ts'
import { argumentsHash } from '../src/tools/canonical.ts'
import { vendorTool } from '../src/tools/declarations.ts'
import { OutcomeUnknownError, RetryableUpstreamError } from '../src/tools/errors.ts'
import { ok } from '../src/tools/models.ts'
import type { ScriptedTurn } from '../src/testing/script.ts'
import {
  argumentsOf,
  TOOLS,
  type Answer,
  type Event,
  type Fate,
  type Rules,
  type RunHistory,
  type Said,
  type Tool,
} from './run-histories.ts'
import { APPROVER, STARTER, world, type Effects, type World } from './setup/world.ts'

const BY = { kind: 'system', id: 'test', name: 'test' } as const
const ALLOWED: Rules = { 'crm.search': 'allow', 'crm.note': 'allow', 'email.send': 'allow', 'sms.send': 'allow' }

/** What the organization says now, and what people said about this run. */
interface Ground {
  rules: Rules
  readonly revoked: Set<Tool>
  readonly disabled: Set<Tool>
  cancelled: boolean
  /** Calls as `tool subject`. */
  readonly approved: Set<string>
  readonly rejected: Set<string>
  readonly sendAgain: Map<string, number>
}

/** How a history ended. */
export interface PlayedRun {
  readonly run: RunRow
  /** Rounds of time, engine and answers that brought it home. */
  readonly rounds: number
  readonly pending: number
  /** Sends as `tool subject`, every time one arrived. */
  readonly arrived: readonly string[]
  readonly notes: readonly string[]
  readonly sendAgain: ReadonlyMap<string, number>
  /** Sends that began although the ground said no. */
  readonly forbidden: readonly string[]
}

/** Rounds in which every run has to end when people answer what they are asked. */
const ROUNDS = 40

/** Two engines on two handles, one organization and one outside world; plays one history after another. */
export class RunPlayer {
  readonly #database: Database
  readonly #effects: Effects = { sent: [], notes: [], searches: [] }
  #worlds: { readonly a: World; readonly b: World } | null = null
  #turns: readonly ScriptedTurn[] = []
  #ground = groundOf(ALLOWED)
  #fates: Fate[] = []
  #arrived: string[] = []
  #forbidden: string[] = []
  #runId = ''

  constructor(database: Database) {
    this.#database = database
  }

  async open(other: Database): Promise<void> {
    this.#worlds = { a: await this.#world(this.#database), b: await this.#world(other) }
  }

  async play(history: RunHistory): Promise<PlayedRun> {
    await this.#begin(history)
    for (const event of history.events) await this.#happen(event)
    const rounds = await this.#bringHome(history.home)
    const run = await this.#a.run(this.#runId)
    return {
      run,
      rounds,
      pending: (await this.#pending()).length,
      arrived: this.#arrived,
      notes: [...this.#effects.notes],
      sendAgain: this.#ground.sendAgain,
      forbidden: this.#forbidden,
    }
  }

  get #a(): World {
    if (this.#worlds === null) throw new Error('not open')
    return this.#worlds.a
  }

  get #b(): World {
    if (this.#worlds === null) throw new Error('not open')
    return this.#worlds.b
  }

  #world(database: Database): Promise<World> {
    const sms = vendorTool({
      name: 'sms.send',
      description: 'Send one text.',
      input: z.object({ to: z.string(), subject: z.string().default('hello') }),
      output: z.object({ accepted: z.string() }),
      sideEffects: 'send',
      connection: 'email',
      repeatable: false,
      handler: async (_invocation, { to }) => {
        this.#sending('sms.send', to)
        await this.#sent('sms.send', to)
        return ok({ accepted: to })
      },
    })
    return world({
      database,
      effects: this.#effects,
      extraTools: [sms],
      onSend: async (to) => this.#sending('email.send', to),
      afterSend: (to) => this.#sent('email.send', to),
      script: ({ turns }) => this.#turns[turns.length] ?? { text: 'done' },
    })
  }

  /** A call the handler was reached with: what is said about it now has to allow it. */
  #sending(tool: Tool, to: string): void {
    const { rules, revoked, disabled, cancelled, approved, rejected } = this.#ground
    const call = `${tool} ${to}`
    const answered = approved.has(call) && !rejected.has(call)
    const allowed = rules[tool] === 'allow' || (rules[tool] === 'require_approval' && answered)
    if (!allowed || cancelled || revoked.has(tool) || disabled.has(tool)) this.#forbidden.push(call)
    const fate = this.#fates[0]
    if (fate !== 'fault' && fate !== 'busy' && fate !== 'unheard') return
    this.#fates.shift()
    if (fate === 'busy') throw new RetryableUpstreamError('429')
    throw fate === 'fault' ? new Error('the line is cut') : new OutcomeUnknownError('no answer')
  }

  async #sent(tool: Tool, to: string): Promise<void> {
    this.#arrived.push(`${tool} ${to}`)
    const fate = this.#fates.shift()
    if (fate === 'answer lost') throw new OutcomeUnknownError('no answer')
    if (fate === 'lost')
      await this.#sql(`${LAPSE}, owner = gen_random_uuid() WHERE status = 'processing' AND run_id = `)
    if (fate === 'taken over') {
      await this.#sql(`UPDATE agent.runs SET begun_at = begun_at - interval '1 hour' WHERE id = `)
      await this.#sql(`UPDATE agent.run_heartbeats SET beat_at = beat_at - interval '1 hour' WHERE run_id = `)
      await this.#b.engine.wake(this.#runId)
      await this.#b.engine.settle()
    }
  }

  async #begin({ turns, rules, maxTurns, maxToolCalls }: RunHistory): Promise<void> {
    // A run that a failed history left open would go on in this one, and hide what was found.
    if (this.#runId !== '') {
      await this.#sql('UPDATE agent.runs SET segment_id = NULL WHERE id = ')
      await this.#a.core.stores.runs.fail(this.#runId, ABANDONED)
    }
    for (const tool of this.#ground.revoked) await this.#grant(tool, true)
    for (const tool of this.#ground.disabled) await this.#enable(tool, true)
    this.#ground = groundOf(rules)
    await this.#syncRules()
    this.#turns = turns
    this.#fates = []
    this.#arrived = []
    this.#forbidden = []
    for (const list of [this.#effects.sent, this.#effects.notes, this.#effects.searches]) list.length = 0
    const { organizationId, runtime } = this.#a
    const run = await runtime.runs.start({
      organizationId,
      definition: 'outreach',
      // Its own words, so that a count of failed attempts is about this run.
      input: randomUUID(),
      startedBy: STARTER,
      source: 'api',
      ceilings: { maxTurns, maxToolCalls },
    })
    this.#runId = run.id
  }

  async #happen(event: Event): Promise<void> {
    switch (event.do) {
      case 'advance':
        return this.#advance(event)
      case 'answer':
        return this.#answerOne(event)
      case 'grant':
        return this.#grant(event.tool, event.to)
      case 'enable':
        return this.#enable(event.tool, event.to)
      case 'rule':
        this.#ground.rules = { ...this.#ground.rules, [event.tool]: event.effect }
        return this.#syncRules()
      case 'fate':
        this.#fates.push(event.fate)
        return
      case 'dead claim':
        return this.#leaveClaim(event.tool, event.subject)
      case 'expire':
        return this.#expire(event.which)
      case 'crash':
        await this.#a.core.stores.runs.begin(this.#runId, randomUUID(), { staleS: 0, lanes: DEFAULT_LANE_LIMITS })
        return
      case 'time passes':
        return this.#timePasses()
      case 'cancel': {
        const { organizationId, runtime } = this.#a
        await runtime.runs.cancel({ organizationId, runId: this.#runId, reason: null, by: STARTER })
        this.#ground.cancelled = true
      }
    }
  }

  async #advance({ by, after }: Pick<Extract<Event, { do: 'advance' }>, 'by' | 'after'>): Promise<void> {
    const engines = by === 'both' ? [this.#a.engine, this.#b.engine] : [by === 'a' ? this.#a.engine : this.#b.engine]
    for (const engine of engines) await (after === 'sweep' ? engine.sweep() : engine.wake(this.#runId))
    await Promise.all(engines.map((engine) => engine.settle()))
  }

  async #answerOne({ which, how, said, racing }: Extract<Event, { do: 'answer' }>): Promise<void> {
    const pending = await this.#pending()
    const question = pending[which % Math.max(1, pending.length)]
    if (question === undefined) return
    const running = racing ? this.#advance({ by: 'b', after: 'wake' }) : Promise.resolve()
    await this.#answer(question, { how, said })
    await running
  }

  /** Answers what became of it. */
  async #answer(question: Approval, { how, said }: { how: Answer; said: Said }): Promise<string> {
    const { approved, rejected, sendAgain } = this.#ground
    const call = `${question.tool} ${subjectOf(question)}`
    const action = question.kind === 'action'
    // Noted before it is given: a segment that runs meanwhile may act on it before the answer is back.
    if (how === 'approve' && action) approved.add(call)
    if (how === 'approve' && !action && said === 'send_again') sendAgain.set(call, (sendAgain.get(call) ?? 0) + 1)
    const { organizationId, core } = this.#b
    const outcome = await core.approvals[how === 'approve' ? 'approve' : 'reject']({
      organizationId,
      approvalId: question.id,
      argumentsHash: question.argumentsHash,
      decider: { actor: APPROVER, roles: ['approver'] },
      note: null,
      ...(action ? {} : { outcome: said }),
      stopRun: how === 'stop',
    })
    if (outcome.kind === 'answered' && how !== 'approve' && action) rejected.add(call)
    if (outcome.kind === 'answered' && how === 'stop') this.#ground.cancelled = true
    return outcome.kind
  }

  async #grant(tool: Tool, to: boolean): Promise<void> {
    const { organizationId, core } = this.#a
    const grant = { organizationId, definition: 'outreach', tool, by: BY }
    if (to) await core.stores.grants.grant({ ...grant, id: core.newId() })
    else await core.stores.grants.revoke(grant)
    this.#ground.revoked[to ? 'delete' : 'add'](tool)
  }

  async #enable(tool: Tool, to: boolean): Promise<void> {
    const { organizationId, core } = this.#a
    await core.stores.tools.setEnabled({ organizationId, tool, enabled: to, by: BY })
    this.#ground.disabled[to ? 'delete' : 'add'](tool)
  }

  async #syncRules(): Promise<void> {
    const { organizationId, core } = this.#a
    const rules = TOOLS.map((tool) => ({ name: tool, tools: [tool], effect: this.#ground.rules[tool] }))
    await syncRules(core, { organizationId, rules, by: BY })
  }

  /** What a worker leaves that died before its handler: a claim in its name, long past its lease. */
  async #leaveClaim(tool: Tool, subject: string): Promise<void> {
    const hash = argumentsHash(argumentsOf(tool, subject))
    await this.#database.execute(`INSERT INTO agent.idempotency_keys
      (organization_id, scope, key, run_id, status, request_hash, owner, lease_until)
      VALUES ('${this.#a.organizationId}', 'tool.${tool}', '${this.#runId}:agent:${hash}', '${this.#runId}', 'processing',
        '\\x${hash}', gen_random_uuid(), now() - interval '1 hour') ON CONFLICT DO NOTHING`)
  }

  async #expire(which: number): Promise<void> {
    const pending = await this.#pending()
    const question = pending[which % Math.max(1, pending.length)]
    if (question === undefined) return
    await this.#database.execute(
      `UPDATE agent.approvals SET expires_at = now() - interval '1 second' WHERE id = '${question.id}'`,
    )
    await this.#b.engine.sweep()
  }

  /**
   * Ten minutes, longer than any lease, any silence and any wait for a retry, and far shorter than a person may take: what
   * waits for an answer must not need the end of that wait. Moves only what is there for a clock to move.
   */
  async #timePasses(): Promise<void> {
    await this.#sql(`${LAPSE} WHERE status = 'processing' AND run_id = `)
    await this.#sql(`UPDATE agent.run_heartbeats SET beat_at = beat_at - interval '10 minutes' WHERE run_id = `)
    await this.#sql(
      `UPDATE agent.runs SET begun_at = begun_at - interval '10 minutes', wake_at = wake_at - interval '10 minutes' WHERE id = `,
    )
  }

  /** Time, engines and a person who answers, and nothing else. Answers how many rounds it took. */
  async #bringHome(answer: RunHistory['home']): Promise<number> {
    /** Calls about which the wanted answer could not be given: there a person says no. */
    const refused = new Set<string>()
    for (let round = 0; round < ROUNDS; round += 1) {
      await this.#timePasses()
      await this.#advance({ by: answer.alone || round % 2 === 0 ? 'a' : 'b', after: 'sweep' })
      if ((await this.#a.run(this.#runId)).endedAt !== null) return round
      for (const question of await this.#pending()) {
        const how = refused.has(question.argumentsHash) ? 'reject' : answer.how
        const outcome = await this.#answer(question, { ...answer, how })
        if (outcome === 'stale' && answer.said === 'send_again') refused.add(question.argumentsHash)
      }
    }
    return ROUNDS
  }

  async #pending(): Promise<readonly Approval[]> {
    const { core, organizationId } = this.#b
    return (await core.approvals.list(organizationId, { runId: this.#runId, state: 'pending' })).items
  }

  #sql(text: string): Promise<void> {
    return this.#database.execute(`${text}'${this.#runId}'`)
  }
}

const ABANDONED = { status: 'failed', reason: 'abandoned', message: null, output: null } as const

const LAPSE = `UPDATE agent.idempotency_keys SET lease_until = now() - interval '1 second'`

function subjectOf({ arguments: { to, text } }: Approval): string {
  const subject = to ?? text
  return typeof subject === 'string' ? subject : ''
}

function groundOf(rules: Rules): Ground {
  return {
    rules,
    revoked: new Set(),
    disabled: new Set(),
    cancelled: false,
    approved: new Set(),
    rejected: new Set(),
    sendAgain: new Map(),
  }
}
