import { remainder, type RunUse } from '../../decision/ceilings.ts'
import type { ToolInvocation } from '../../tools/invocation.ts'
import type { WorkflowOutcome } from './outcome.ts'
import type { Segment } from '../run-store.ts'
import type { WorkflowDefinition } from './definition.ts'
import { endingOfWorkflow, endingWithout } from './ending.ts'
import type { WorkflowDependencies } from './executor.ts'
import { haltBeforeNode, type Halt } from './halt.ts'
import { look } from './look.ts'
import { beginWait, runTool, startAgent, type Settled } from './run-leaf.ts'
import { schedule, type ReadyStep } from './schedule.ts'
import { Values } from './scope.ts'
import type { StepRow } from './step.ts'
import type { StepBook } from './step-book.ts'

export interface Work {
  readonly segment: Segment
  readonly definition: Pick<WorkflowDefinition, 'root' | 'output'>
  readonly book: StepBook
  /** Ends the segment before its next node. */
  readonly leave: AbortSignal
}

/** A step came to an end in this segment. */
interface Arrival {
  readonly step: ReadyStep
  readonly settled: Settled
}

/** Milliseconds until something that is late is looked at again. */
const LATE_MS = 30_000

/** One segment: plan, write, begin, wait for whatever ends first, and again. */
export class Pass {
  readonly #deps: WorkflowDependencies
  readonly #work: Work
  readonly #openedAt: number
  /** By path. */
  readonly #inFlight = new Map<string, Promise<Arrival>>()
  /** Steps that met the call of an equal step of their node, which this segment is making. */
  readonly #twins = new Map<string, ReadyStep>()
  /** Steps that met such a call and were tried once more. */
  readonly #tried = new Set<string>()
  #halt: Halt | null = null
  /** A call was refused that the run has no more of. Those that had begun still go on. */
  #outOfCalls = false
  #wakeCounter: number
  #childToolCalls: number
  #spentCents: number

  constructor(deps: WorkflowDependencies, work: Work) {
    const { segment, book } = work
    this.#deps = deps
    this.#work = work
    this.#openedAt = deps.now().getTime()
    this.#wakeCounter = segment.run.wakeCounter
    this.#childToolCalls = Math.max(0, segment.run.toolCalls - book.toolCalls)
    this.#spentCents = segment.use.spentCents
  }

  async run(): Promise<WorkflowOutcome> {
    try {
      await this.#lookAtWaits()
      return await this.#advance()
    } finally {
      // Effects in flight settle before the process may forget the run.
      await Promise.allSettled(this.#inFlight.values())
    }
  }

  async #advance(): Promise<WorkflowOutcome> {
    const { book, definition, segment } = this.#work
    for (;;) {
      const plan = schedule(definition, { input: segment.run.input, steps: book.views })
      for (const change of plan.containers) book.container(change)
      const chosen = this.#choose(plan.ready)
      for (const step of chosen) book.begin(step)
      const stopped = this.#halt !== null && this.#halt.kind !== 'ceiling'
      const news = await this.#boundary()
      // What came to its end needs no more of what has run out meanwhile.
      if (plan.end !== null && !stopped && this.#halt?.kind !== 'cancelled')
        return endingOfWorkflow(plan.end, definition, this.#values())
      this.#beginAll(chosen)
      if (this.#inFlight.size > 0) for (const arrival of await this.#arrivals()) await this.#settle(arrival)
      else if (this.#halt !== null || !news) return this.#outcome()
    }
  }

  /** Of what could begin, what the run has calls left for. */
  #choose(ready: readonly ReadyStep[]): readonly ReadyStep[] {
    if (this.#work.leave.aborted) this.#halt ??= { kind: 'leave', error: this.#work.leave.reason }
    if (this.#halt !== null) return []
    const { book, segment } = this.#work
    const most = segment.run.snapshot.ceilings.maxToolCalls
    let calls = book.toolCalls + this.#childToolCalls
    return ready.filter(({ node, path }) => {
      // One that had begun is counted already, however often it waits.
      if (node.kind !== 'tool' || book.row(path) !== null) return true
      calls += 1
      if (calls <= most) return true
      this.#outOfCalls = true
      return false
    })
  }

  /** Writes what changed and reads what the next node is decided on; answers whether something came that was waited for. */
  async #boundary(): Promise<boolean> {
    const { segment, book } = this.#work
    const { run } = segment
    const ground = await this.#deps.steps.record(segment, book.takeChanges(), book.toolCalls)
    this.#deps.onChange(run.organizationId, run.id)
    this.#childToolCalls = ground.childToolCalls
    this.#spentCents = ground.spentCents
    const late = this.#deps.now() >= run.deadline
    this.#halt ??= haltBeforeNode(ground, { ceilings: run.snapshot.ceilings, elapsedS: this.#use().elapsedS, late })
    if (ground.wakeCounter === this.#wakeCounter) return false
    this.#wakeCounter = ground.wakeCounter
    book.refresh(await this.#deps.steps.questions(segment))
    await this.#lookAtWaits()
    return true
  }

  async #lookAtWaits(): Promise<void> {
    for (const step of this.#work.book.waiting()) await this.#lookAt(step)
  }

  async #lookAt(step: StepRow): Promise<void> {
    const { book, segment } = this.#work
    const { signals, children, jobs } = this.#deps
    const isOpen = (approvalId: string): boolean => book.isOpen(approvalId)
    const seen = await look(step, { segment, now: this.#deps.now(), signals, children, jobs, isOpen })
    if (seen.kind === 'again') book.again(step.path)
    if (seen.kind === 'over') book.rest(step.path, seen.rest)
  }

  #beginAll(chosen: readonly ReadyStep[]): void {
    for (const step of chosen) {
      if (this.#halt === null)
        this.#inFlight.set(
          step.path,
          this.#begin(step).then((settled) => ({ step, settled })),
        )
      else this.#work.book.again(step.path)
    }
  }

  async #begin(step: ReadyStep): Promise<Settled> {
    const { segment, book } = this.#work
    const { node, path, items } = step
    const { run } = segment
    const values = this.#values()
    switch (node.kind) {
      case 'tool':
        return runTool(this.#deps, {
          node,
          args: () => values.render(node.args, items),
          invocation: this.#invocation(node.id),
          spanId: book.spanOf(path),
          rootRunId: run.rootRunId,
          pauseId: book.pauseOf(node.id),
          authorizedBy: book.approvalsFor(step),
        })
      case 'agent': {
        const toolCalls = Math.max(0, run.snapshot.ceilings.maxToolCalls - book.toolCalls - this.#childToolCalls)
        const from = { parent: run, step: path, spanId: book.spanOf(path), toolCalls }
        const start = this.#deps.startChild
        return startAgent({
          node,
          input: () => values.render(node.input, items),
          start: (child) => start({ ...from, ...child }),
        })
      }
      case 'wait':
        return beginWait({
          node,
          render: (template) => values.render(template, items),
          now: this.#deps.now(),
          deadline: run.deadline,
        })
    }
  }

  /** Everything that has ended by now, at least one. */
  async #arrivals(): Promise<readonly Arrival[]> {
    const first = await Promise.race(this.#inFlight.values())
    const arrived = [first]
    // Those that ended in the same moment share a boundary.
    for (const [path, promise] of this.#inFlight) {
      const done = path === first.step.path ? null : await Promise.race([promise, Promise.resolve(null)])
      if (done !== null) arrived.push(done)
    }
    for (const { step } of arrived) this.#inFlight.delete(step.path)
    return arrived
  }

  async #settle({ step, settled }: Arrival): Promise<void> {
    const { book } = this.#work
    const { path } = step
    switch (settled.kind) {
      case 'rest':
        book.rest(path, settled.rest)
        if (settled.halt !== undefined) this.#halt ??= settled.halt
        // Read before the run parks: what came before the wait was registered is found now.
        await this.#lookAtNew(path)
        break
      case 'broken_off':
        book.again(path)
        this.#halt ??= settled.halt
        break
      case 'in_flight':
        return this.#meetTwin(step, settled.until)
    }
    for (const [twin, { node }] of this.#twins) {
      if (node.id !== step.node.id) continue
      this.#twins.delete(twin)
      book.again(twin)
    }
  }

  async #lookAtNew(path: string): Promise<void> {
    const row = this.#work.book.row(path)
    const kind = row?.wait?.kind
    if (row !== null && (kind === 'time' || kind === 'signal' || kind === 'provider_job')) await this.#lookAt(row)
  }

  /** Two equal calls of one node are one effect: the second is answered once the first is over, by the journal. */
  #meetTwin(step: ReadyStep, until: Date): void {
    const { book } = this.#work
    const isBeingMade = [...this.#inFlight.keys()].some((path) => book.row(path)?.node === step.node.id)
    if (isBeingMade) this.#twins.set(step.path, step)
    else if (this.#tried.has(step.path))
      book.rest(step.path, { kind: 'waiting', wait: { kind: 'lease', until: until.toISOString() } })
    else {
      this.#tried.add(step.path)
      book.again(step.path)
    }
  }

  #outcome(): WorkflowOutcome {
    const { definition, segment, book } = this.#work
    const halt = this.#halt
    switch (halt?.kind) {
      case 'fault':
      case 'leave':
        throw halt.error
      case 'cancelled':
      case 'failed':
      case 'lane_paused':
        return halt
      case 'partial':
        return endingWithout(halt.reason, definition, this.#values())
      case 'ceiling':
      case undefined:
    }
    const waiting = book.waiting()
    const refused = halt?.reason ?? (this.#outOfCalls ? 'max_tool_calls' : null)
    // What a person is asked about, or another run is working on, is let come to its end; a time is not waited for.
    if (refused !== null && !waiting.some(({ wait }) => wait?.kind === 'approval' || wait?.kind === 'child'))
      return endingWithout(refused, definition, this.#values())
    if (waiting.length === 0) throw new Error(`run ${segment.run.id} has nothing to do and nothing to wait for`)
    const now = this.#deps.now().getTime()
    const times = waiting.map(({ wait }) => (wait === null ? now : Date.parse(wait.until)))
    return { kind: 'waits', until: new Date(Math.min(...times.map((time) => (time > now ? time : now + LATE_MS)))) }
  }

  #values(): Values {
    const { definition, segment, book } = this.#work
    return new Values(definition, { input: segment.run.input, steps: book.views })
  }

  #use(): RunUse {
    const { segment, book } = this.#work
    return {
      turns: 0,
      toolCalls: book.toolCalls + this.#childToolCalls,
      elapsedS: segment.use.elapsedS + (this.#deps.now().getTime() - this.#openedAt) / 1000,
      spentCents: this.#spentCents,
    }
  }

  #invocation(stepPath: string): ToolInvocation {
    const { run } = this.#work.segment
    const { principal, ceilings, contracts } = run.snapshot
    return {
      organizationId: run.organizationId,
      userId: principal.userId,
      runId: run.id,
      definitionId: run.definitionId,
      stepPath,
      principal,
      ceilings: remainder(ceilings, this.#use()),
      deadline: run.deadline,
      source: run.source,
      contracts,
    }
  }
}
