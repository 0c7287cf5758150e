import type { LanguageModelUsage, ModelMessage, ToolSet } from 'ai'
import type { Approval } from '../../approvals/approval-store.ts'
import type { Bailiff } from '../../bailiff.ts'
import { DEFAULT_CEILINGS, type RunSnapshot } from '../../runs/definition.ts'
import { DEFAULT_LANE_LIMITS, type BeginRules } from '../../runs/lane.ts'
import { pausableReads } from '../../runs/pausable-reads.ts'
import { answerPause, callRead, outcomeOf, type CallOutcome } from '../../runs/drain-loop.ts'
import { endingOf, type FinalOutcome } from '../../runs/run-ending.ts'
import type { Pause, Segment, SegmentFault } from '../../runs/run-store.ts'
import { SegmentState } from '../../runs/segment-state.ts'
import { stopSlot } from '../../runs/segment-stop.ts'
import type { ModelUsage } from '../../runs/session.ts'
import { UnreadableSession } from '../../runs/unreadable-session.ts'
import type { Actor, RunCeilings } from '../../tools/invocation.ts'
import { modelToolName } from '../../tools/models.ts'
import { modelPayload } from '../../tools/render.ts'
import { declareTools, type DeclaredTools, type SegmentContracts } from './declare-tools.ts'
import { guardedCalls } from './guarded-calls.ts'
import type { LanguageModel } from './model-types.ts'
import { callIds } from './transcript.ts'
import {
  openCalls,
  OWN_LOOP,
  restoreState,
  saveState,
  withAnswers,
  type ConversationState,
} from './own-conversation.ts'

export interface GovernedOptions<Name extends string> {
  /** Names the agent: grants and rules refer to it. `^[a-z][a-z0-9-]{0,62}$` */
  readonly agent: string
  /** The tools this agent may see. */
  readonly tools: readonly Name[]
  /** On whose behalf; shown to approvers, and barred from approving their own calls unless the organization allows it. */
  readonly user?: { readonly id: string; readonly name: string; readonly roles?: readonly string[] }
  readonly ceilings?: Partial<RunCeilings>
}

/** One conversation partner: each user message becomes one run. */
export interface GovernedSession {
  /** Starts a run with the messages so far, the last of them the user's. */
  start(messages: string | readonly ModelMessage[]): Promise<GovernedRun>
  /** Goes on with a run that waited for a person, in this process or another. */
  continue(runId: string): Promise<GovernedRun>
}

export type GovernedStatus =
  /** Call the model with `messages` and `tools`, then `drain` what it answered. */
  | { readonly kind: 'ready' }
  /** A person has to answer first. `session.continue(runId)` goes on. */
  | { readonly kind: 'waiting'; readonly approvals: readonly Approval[] }
  | { readonly kind: 'finished'; readonly text: string }
  /** A ceiling, a cancel or a fault ended the run. */
  | { readonly kind: 'ended'; readonly status: 'partial' | 'failed' | 'cancelled'; readonly reason: string | null }

/** One run driven by your own loop. */
export interface GovernedRun {
  readonly runId: string
  readonly status: GovernedStatus
  /** The conversation as the model is to see it. */
  readonly messages: ModelMessage[]
  /** Reads run inside your loop; whatever may have to wait for a person has no executor, so the loop stops on it. */
  readonly tools: ToolSet
  /**
   * Your model, with its calls judged as it wrote them: arguments that do not say one thing only (a key twice, a number
   * that would be rounded) are refused, and ids a provider repeats are told apart. Hand this one to the AI SDK.
   */
  readonly guard: (model: LanguageModel) => LanguageModel
  /** Add it to your own conditions: true once the run must not go on. */
  readonly stopWhen: () => boolean
  /**
   * Takes what `generateText` or `streamText` answered: decides and runs what the model proposed, and puts the results
   * into `messages`. Answers the new status.
   */
  drain(result: ModelAnswer): Promise<GovernedStatus>
}

/** What the AI SDK's results have in common. */
export interface ModelAnswer {
  /** Of every step of the loop. */
  readonly responseMessages: PromiseLike<readonly ModelMessage[]> | readonly ModelMessage[]
  /** Of the last step alone: what it says of messages leaves out the reads before it. */
  readonly response: PromiseLike<LastResponse> | LastResponse
  readonly text: PromiseLike<string> | string
  readonly totalUsage?: PromiseLike<LanguageModelUsage> | LanguageModelUsage
}

interface LastResponse {
  readonly modelId?: string
}

const CODE: Actor = { kind: 'system', id: 'code', name: 'code' }
const LEFT = 'the loop raised; the run can be continued'

/** Whoever holds the run is a loop of the same program, which left it. Its lane is nobody's: the limits are not read. */
const TAKES_OVER: BeginRules = { staleS: 0, lanes: DEFAULT_LANE_LIMITS }

/** However often its loop raises, a run stays one that can be continued. */
function leaving(message: string): SegmentFault {
  return { message, final: null }
}

/**
 * Governs tool calls of an AI SDK loop that you own: `generateText`, `streamText` or `ToolLoopAgent`.
 * @throws ValidationError when `tools` names one that does not exist
 */
export async function governed<Name extends string>(
  bailiff: Bailiff<Name>,
  options: GovernedOptions<NoInfer<Name>>,
): Promise<GovernedSession> {
  const { core, organizationId } = bailiff
  const contracts = core.registry.resolve(options.tools)
  const ceilings = { ...DEFAULT_CEILINGS, ...options.ceilings }
  const startedBy: Actor =
    options.user === undefined ? CODE : { kind: 'user', id: options.user.id, name: options.user.name }
  const body = { instructions: '', tools: options.tools, model: null, ceilings }
  const definition = await core.stores.definitions.publish({
    id: core.newId(),
    organizationId,
    slug: options.agent,
    body,
  })
  for (const tool of options.tools) {
    await core.stores.grants.initial({ id: core.newId(), organizationId, definition: options.agent, tool, by: CODE })
  }
  const snapshot = async (): Promise<RunSnapshot> => {
    const held = await core.stores.grants.list(organizationId, options.agent)
    const live = new Set(held.filter((grant) => grant.revokedAt === null).map((grant) => grant.tool))
    return {
      contracts: Object.fromEntries(contracts.map((contract) => [contract.name, contract])),
      principal: {
        agent: options.agent,
        userId: options.user?.id ?? null,
        roles: options.user?.roles ?? [],
        scopes: options.tools.filter((tool) => live.has(tool)),
        startedBy,
      },
      ceilings,
      instructions: '',
      model: 'own',
      framework: OWN_LOOP,
    }
  }
  return {
    async start(messages) {
      const run = await core.stores.runs.create({
        id: core.newId(),
        organizationId,
        definitionId: definition.id,
        definition: options.agent,
        source: 'library',
        lane: 'interactive',
        input: typeof messages === 'string' ? messages : JSON.parse(JSON.stringify(messages)),
        snapshot: await snapshot(),
        deadline: new Date(core.now().getTime() + ceilings.maxDurationS * 1000),
      })
      const conversation = typeof messages === 'string' ? [{ role: 'user' as const, content: messages }] : [...messages]
      return openRun(bailiff, run.id, { messages: conversation, proposals: [] })
    },
    continue: (runId) => openRun(bailiff, runId, null),
  }
}

async function openRun(bailiff: Bailiff, runId: string, fresh: ConversationState | null): Promise<GovernedRun> {
  const { core, organizationId } = bailiff
  const stored = await core.stores.runs.get(organizationId, runId)
  if (stored === null) throw new Error(`there is no run ${runId}`)
  if (stored.snapshot.framework !== OWN_LOOP)
    throw new Error(`run ${runId} is managed by the platform; it goes on by itself`)
  await core.approvals.expireDue()
  const begun = await core.stores.runs.begin(runId, core.newId(), TAKES_OVER)
  if (begun.kind !== 'begun')
    throw new Error(
      begun.kind === 'ended'
        ? `run ${runId} has ended as ${stored.status}`
        : `run ${runId} cannot go on: ${begun.kind}`,
    )
  const { segment } = begun
  const run = await opened(bailiff, segment, async () => {
    const conversation = fresh ?? restoreState(segment.saved?.session ?? null)
    const contracts = Object.values(segment.run.snapshot.contracts)
    const pausable = await pausableReads(core.policy, organizationId, contracts)
    return new OwnLoopRun(bailiff, segment, { conversation, contracts: { contracts, pausable } })
  })
  if (fresh === null) await run.resume()
  return run
}

/** What this build cannot open stays a run that another build can continue, and says why it did not go on here. */
async function opened<T>({ core }: Bailiff, segment: Segment, open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    await core.stores.runs.release(segment, leaving(error instanceof UnreadableSession ? error.message : LEFT))
    throw error
  }
}

interface OpeningParts {
  readonly conversation: ConversationState
  readonly contracts: SegmentContracts
}

class OwnLoopRun implements GovernedRun {
  readonly runId: string
  readonly #bailiff: Bailiff
  readonly #segment: Segment
  readonly #declared: DeclaredTools
  readonly #stop = stopSlot()
  readonly #state: SegmentState
  #conversation: ConversationState
  #status: GovernedStatus = { kind: 'ready' }

  constructor(bailiff: Bailiff, segment: Segment, { conversation, contracts }: OpeningParts) {
    this.runId = segment.run.id
    this.#bailiff = bailiff
    this.#segment = segment
    this.#conversation = conversation
    const { core } = bailiff
    const dependencies = {
      ...core,
      store: core.stores.runs,
      onChange: core.live.changed,
    }
    this.#state = new SegmentState(segment, dependencies, () => saveState(this.#conversation))
    this.#declared = declareTools(contracts, async ({ toolName, args }) => {
      const result = await callRead(toolName, args, { ...this.#state.ports, stop: this.#stop })
      return modelPayload(result, modelToolName(toolName))
    })
  }

  get status(): GovernedStatus {
    return this.#status
  }

  get messages(): ModelMessage[] {
    return [...this.#conversation.messages]
  }

  get tools(): ToolSet {
    return this.#declared.tools
  }

  readonly guard = (model: LanguageModel): LanguageModel => guardedCalls(model, callIds(this.#conversation.messages))

  readonly stopWhen = (): boolean => this.#stop.current !== null

  /** A run that waited meets the same proposals again; the journal answers those that already ran. */
  async resume(): Promise<void> {
    const pause = this.#segment.saved?.pause ?? null
    this.#status = await this.#settled(() =>
      pause === null ? Promise.resolve({ kind: 'ready' }) : this.#answer(pause),
    )
  }

  async drain(result: ModelAnswer): Promise<GovernedStatus> {
    if (this.#status.kind !== 'ready')
      throw new Error(`run ${this.runId} is ${this.#status.kind}; there is nothing to drain`)
    this.#status = await this.#settled(() => this.#take(result))
    return this.#status
  }

  async #take(result: ModelAnswer): Promise<GovernedStatus> {
    const { responseMessages, response, totalUsage } = result
    const [messages, last, text, usage] = await Promise.all([responseMessages, response, result.text, totalUsage])
    const { ports } = this.#state
    const proposals = openCalls(messages, this.#declared)
    if (this.#stop.current === null)
      this.#conversation = { messages: [...this.#conversation.messages, ...messages], proposals }
    ports.turnStarted()
    await ports.turnEnded({
      text,
      usage: usageOf(last.modelId, usage),
      progressed: this.#stop.current === null,
    })
    if (this.#stop.current !== null) return this.#end(outcomeOf(this.#stop.current))
    if (proposals.length === 0) return this.#end({ kind: 'completed', text })
    return this.#answer(await ports.paused(proposals))
  }

  async #answer(pause: Pause): Promise<GovernedStatus> {
    const answered = await answerPause(pause, this.#state.ports)
    if (answered.kind !== 'answered') return this.#end(answered)
    this.#conversation = withAnswers(this.#conversation, answered.results)
    await this.#bailiff.core.stores.runs.saveSession(this.#segment, {
      session: saveState(this.#conversation),
      pause: null,
    })
    return { kind: 'ready' }
  }

  async #end(outcome: CallOutcome): Promise<GovernedStatus> {
    const { core } = this.#bailiff
    await core.ledger.flush()
    if (outcome.kind === 'needs_approval' || outcome.kind === 'in_flight') {
      const wakeAt = outcome.kind === 'needs_approval' ? outcome.expiresAt : outcome.until
      await core.stores.runs.park(this.#segment, { wakeAt })
      const { items } = await this.#bailiff.approvals.list({ runId: this.runId, state: 'pending' })
      return { kind: 'waiting', approvals: items }
    }
    return this.#ended(outcome)
  }

  async #ended(outcome: FinalOutcome): Promise<GovernedStatus> {
    const ending = endingOf(outcome)
    await this.#bailiff.core.stores.runs.end(this.#segment, ending)
    if (outcome.kind === 'completed') return { kind: 'finished', text: outcome.text }
    return { kind: 'ended', status: ending.status === 'completed' ? 'failed' : ending.status, reason: ending.reason }
  }

  /** A fault leaves the run where it was saved: `continue` tries again, and what already ran is answered by the journal. */
  async #settled(work: () => Promise<GovernedStatus>): Promise<GovernedStatus> {
    try {
      return await work()
    } catch (error) {
      await this.#bailiff.core.stores.runs.release(this.#segment, leaving(LEFT))
      throw error
    }
  }
}

function usageOf(modelId: string | undefined, usage: LanguageModelUsage | undefined): ModelUsage {
  return {
    provider: 'own',
    model: modelId ?? 'unknown',
    inputTokens: usage?.inputTokens ?? 0,
    outputTokens: usage?.outputTokens ?? 0,
  }
}
