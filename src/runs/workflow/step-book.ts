import type { JsonValue } from '../../tools/json.ts'
import type { Segment } from '../run-store.ts'
import type { ContainerChange, ReadyStep } from './schedule.ts'
import type { Steps, StepView } from './scope.ts'
import { stepId, type StepError, type StepRow, type StepWait } from './step.ts'
import type { StepChange, StepQuestion, StoredSteps } from './step-store.ts'

/** How one step came to rest. */
export type Rest =
  | { readonly kind: 'completed'; readonly output: JsonValue; readonly error?: StepError }
  | { readonly kind: 'failed'; readonly error: StepError }
  | { readonly kind: 'waiting'; readonly wait: StepWait; readonly childRunId?: string }

interface Entry {
  readonly row: StepRow
  readonly parent: string | null
  /** `inFlight`: this segment works on it. `again`: it was broken off, or its wait is over. */
  readonly standing: 'inFlight' | 'again' | 'atRest'
}

/** The steps of one run as one segment knows them, and what of it the database does not know yet. */
export class StepBook {
  readonly #runId: string
  readonly #now: () => Date
  readonly #entries = new Map<string, Entry>()
  readonly #views = new Map<string, StepView>()
  readonly #unwritten = new Set<string>()
  #toolCalls = 0
  #questions: readonly StepQuestion[]

  constructor(segment: Segment, stored: StoredSteps, now: () => Date) {
    this.#runId = segment.run.id
    this.#now = now
    this.#questions = stored.questions
    for (const row of stored.steps)
      this.#put({ row, parent: null, standing: row.state === 'running' ? 'again' : 'atRest' })
  }

  /** What people and other processes did meanwhile. */
  refresh(questions: readonly StepQuestion[]): void {
    this.#questions = questions
  }

  /** As the scheduler sees them, at this moment. */
  get views(): Steps {
    return this.#views
  }

  row(path: string): StepRow | null {
    return this.#entries.get(path)?.row ?? null
  }

  /** Steps that wait and have not been told to begin again. */
  waiting(): readonly StepRow[] {
    return [...this.#entries.values()].flatMap(({ row, standing }) =>
      row.state === 'waiting' && standing === 'atRest' ? [row] : [],
    )
  }

  /** Calls of tools that this run has begun, each counted once. */
  get toolCalls(): number {
    return this.#toolCalls
  }

  /** Whether nobody has answered a question yet, and there is still time. */
  isOpen(approvalId: string): boolean {
    return this.#questions.some(({ id, open }) => id === approvalId && open)
  }

  /** Questions that may be about this very step: its own, and those of its node that no step is known to have asked. */
  approvalsFor({ node, path }: Pick<ReadyStep, 'node' | 'path'>): readonly string[] {
    const pauseId = this.pauseOf(node.id)
    const own = questionOf(this.row(path))
    const ofNode = this.#questions.filter((question) => question.pauseId === pauseId)
    if (own !== null) return [own]
    const asked = new Set([...this.#entries.values()].map(({ row }) => questionOf(row)))
    return ofNode.filter(({ id }) => !asked.has(id)).map(({ id }) => id)
  }

  /** Groups the questions of a node, whichever of its items asks: equal items ask one. */
  pauseOf(node: string): string {
    return stepId(this.#runId, node)
  }

  spanOf(path: string | null): string {
    return path === null ? this.#runId : stepId(this.#runId, path)
  }

  begin({ node, path, parent }: ReadyStep): void {
    const known = this.row(path)
    // One that waited goes on; one that was broken off begins again.
    const attempt = known === null ? 1 : known.state === 'running' ? known.attempt + 1 : known.attempt
    const row: StepRow = {
      path,
      node: node.id,
      kind: node.kind,
      state: 'running',
      attempt,
      output: null,
      error: null,
      wait: known?.wait ?? null,
      childRunId: known?.childRunId ?? null,
      startedAt: known?.startedAt ?? this.#now(),
    }
    this.#write({ row, parent, standing: 'inFlight' })
  }

  rest(path: string, rest: Rest): void {
    const { row, parent } = this.#known(path)
    const over = { ...row, state: rest.kind, output: null, error: null, wait: null }
    switch (rest.kind) {
      case 'completed':
        return this.#write({
          row: { ...over, output: rest.output, error: rest.error ?? null },
          parent,
          standing: 'atRest',
        })
      case 'failed':
        return this.#write({ row: { ...over, error: { ...rest.error, at: path } }, parent, standing: 'atRest' })
      case 'waiting': {
        const childRunId = rest.childRunId ?? row.childRunId
        return this.#write({ row: { ...over, wait: rest.wait, childRunId }, parent, standing: 'atRest' })
      }
    }
  }

  /** The step is to begin again: what it waited for has come, or it was broken off and wrote nothing. */
  again(path: string): void {
    this.#put({ ...this.#known(path), standing: 'again' })
  }

  container({ node, path, parent, state, note, error }: ContainerChange): void {
    const startedAt = this.row(path)?.startedAt ?? this.#now()
    const row: StepRow = {
      path,
      node: node.id,
      kind: node.kind,
      state,
      attempt: 1,
      output: note,
      error,
      wait: null,
      childRunId: null,
      startedAt,
    }
    this.#write({ row, parent, standing: 'atRest' })
  }

  /** What changed since it was asked last, each step once. */
  takeChanges(): readonly StepChange[] {
    const changes = [...this.#unwritten].map((path) => this.#changeOf(this.#known(path)))
    this.#unwritten.clear()
    return changes
  }

  #changeOf({ row, parent }: Entry): StepChange {
    const { path, state } = row
    if (state === 'skipped') throw new Error(`step ${path} is skipped, and its run goes on`)
    return { ...row, state, spanId: this.spanOf(path), parentSpanId: this.spanOf(parent) }
  }

  #known(path: string): Entry {
    const entry = this.#entries.get(path)
    if (entry === undefined) throw new Error(`there is no step ${path}`)
    return entry
  }

  #write(entry: Entry): void {
    this.#unwritten.add(entry.row.path)
    this.#put(entry)
  }

  #put(entry: Entry): void {
    const { row } = entry
    if (row.kind === 'tool' && !this.#entries.has(row.path)) this.#toolCalls += 1
    this.#entries.set(row.path, entry)
    this.#views.set(row.path, viewOf(entry))
  }
}

function questionOf(row: StepRow | null): string | null {
  return row?.wait?.kind === 'approval' ? row.wait.approvalId : null
}

const LEAVES: readonly string[] = ['tool', 'agent', 'wait']

function viewOf({ row, standing }: Entry): StepView {
  const { state, output, error } = row
  if (state === 'completed' || state === 'failed') return { state, output, error, holdsPlace: false }
  const again = standing === 'again' && LEAVES.includes(row.kind)
  const holdsPlace = !again && (standing === 'inFlight' || row.wait?.kind === 'child')
  return { state: again ? 'ready' : state === 'waiting' ? 'waiting' : 'running', output, error, holdsPlace }
}
