import { ExpressionFault } from '../../policy/expression.ts'
import type { JsonValue } from '../../tools/json.ts'
import type {
  AgentNode,
  BranchNode,
  EndNode,
  MapNode,
  ParallelNode,
  SequenceNode,
  ToolNode,
  WaitNode,
  WorkflowDefinition,
  WorkflowNode,
} from './definition.ts'
import { noteOf, prefixOf, Values, type Items, type Steps, type StepView } from './scope.ts'
import type { ContainerNote, StepError } from './step.ts'
import { partsOf, pathOf } from './tree.ts'

export type LeafNode = ToolNode | AgentNode | WaitNode
export type ContainerNode = Exclude<WorkflowNode, LeafNode>

/** A step that can begin now. */
export interface ReadyStep {
  readonly node: LeafNode
  readonly path: string
  /** Path of the container it stands in; null at the top. */
  readonly parent: string | null
  readonly items: Items
}

/** A container that begins or is over. */
export interface ContainerChange {
  readonly node: ContainerNode
  readonly path: string
  readonly parent: string | null
  readonly state: 'running' | 'completed' | 'failed'
  readonly note: ContainerNote
  readonly error: StepError | null
}

/** How a workflow is over. */
export interface WorkflowEnd {
  readonly ok: boolean
  readonly error: StepError | null
  /** Why the run is `partial` although it came to its end. */
  readonly partial: string | null
}

/** What there is to do at one moment of a run. */
export interface Plan {
  readonly ready: readonly ReadyStep[]
  readonly containers: readonly ContainerChange[]
  readonly end: WorkflowEnd | null
}

export interface Moment {
  readonly input: JsonValue
  readonly steps: Steps
}

/**
 * What can begin now, which containers begin or end, and whether all of it is over. Pure: the same steps give the same
 * plan, in whatever order they came to their ends. A step that is completed or failed is never ready again.
 */
export function schedule(definition: Pick<WorkflowDefinition, 'root'>, moment: Moment): Plan {
  const steps = new Unfolding(moment.steps)
  const values = new Values(definition, { input: moment.input, steps })
  const seen = new Visitor(steps, values).visit(definition.root, { items: [], parent: null })
  return {
    ready: seen.over === null ? seen.ready : [],
    containers: seen.changes,
    end: seen.over === null ? null : endOf(seen.over),
  }
}

function endOf({ fatal, error, ended, partial }: Over): WorkflowEnd {
  return fatal ? { ok: false, error, partial: null } : { ok: true, error: null, partial: ended?.reason ?? partial }
}

/** How a node is over. */
interface Over {
  readonly ok: boolean
  /** It failed, and its `continueOnError` does not say to go on. */
  readonly fatal: boolean
  readonly error: StepError | null
  readonly partial: string | null
  /** An `end` node was reached: nothing behind it runs. */
  readonly ended: { readonly reason: string | null } | null
}

interface Seen {
  readonly over: Over | null
  readonly ready: readonly ReadyStep[]
  readonly changes: readonly ContainerChange[]
  /** Whether something below takes a place of the map around it. */
  readonly holdsPlace: boolean
}

interface Where {
  readonly items: Items
  readonly parent: string | null
}

/** The steps, with the containers that turn out to be over while they are walked: what stands behind them reads them. */
class Unfolding {
  readonly #steps: Steps
  readonly #closed = new Map<string, StepView>()

  constructor(steps: Steps) {
    this.#steps = steps
  }

  get(path: string): StepView | undefined {
    return this.#closed.get(path) ?? this.#steps.get(path)
  }

  has(path: string): boolean {
    return this.#closed.has(path) || this.#steps.has(path)
  }

  close({ path, note, error }: ContainerChange, state: 'completed' | 'failed'): void {
    this.#closed.set(path, { state, output: note, error, holdsPlace: false })
  }
}

const DONE: Over = { ok: true, fatal: false, error: null, partial: null, ended: null }
const NO_NOTE: ContainerNote = { taken: null, items: 0, partial: null, ended: null }

class Visitor {
  readonly #steps: Unfolding
  readonly #values: Values

  constructor(steps: Unfolding, values: Values) {
    this.#steps = steps
    this.#values = values
  }

  visit(node: WorkflowNode, where: Where): Seen {
    switch (node.kind) {
      case 'tool':
      case 'agent':
      case 'wait':
        return this.#leaf(node, where)
      case 'end':
        return this.#end(node, where)
      case 'sequence':
        return this.#container(node, where, () => this.#sequence(node, this.#inside(node, where)))
      case 'parallel':
        return this.#container(node, where, () => this.#parallel(node, this.#inside(node, where)))
      case 'branch':
        return this.#container(node, where, () => this.#branch(node, this.#inside(node, where)))
      case 'map':
        return this.#container(node, where, () => this.#map(node, this.#inside(node, where)))
    }
  }

  #inside(node: WorkflowNode, { items }: Where): Where & { readonly path: string } {
    const path = pathOf(prefixOf(items), node.id)
    return { items, parent: path, path }
  }

  #leaf(node: LeafNode, { items, parent }: Where): Seen {
    const path = pathOf(prefixOf(items), node.id)
    const step = this.#steps.get(path)
    if (step === undefined || step.state === 'ready')
      return { over: null, ready: [{ node, path, parent, items }], changes: [], holdsPlace: false }
    if (step.state === 'running' || step.state === 'waiting')
      return { over: null, ready: [], changes: [], holdsPlace: step.holdsPlace }
    return { over: overOf(node, step), ready: [], changes: [], holdsPlace: false }
  }

  #end(node: EndNode, { items, parent }: Where): Seen {
    const path = pathOf(prefixOf(items), node.id)
    const over = { ...DONE, ended: { reason: node.reason ?? null } }
    const change = { node, path, parent, state: 'completed' as const, note: NO_NOTE, error: null }
    return { over, ready: [], changes: this.#steps.has(path) ? [] : [change], holdsPlace: false }
  }

  /** A container that is over is not walked again: what it has to say stands in its row. */
  #container(node: ContainerNode, where: Where, walk: () => Seen & { readonly note: ContainerNote }): Seen {
    const path = pathOf(prefixOf(where.items), node.id)
    const step = this.#steps.get(path)
    if (step?.state === 'completed' || step?.state === 'failed')
      return { over: overOf(node, step), ready: [], changes: [], holdsPlace: false }
    const seen = walk()
    const at = { node, path, parent: where.parent }
    if (seen.over === null) {
      const opened: ContainerChange[] =
        step === undefined ? [{ ...at, state: 'running', note: seen.note, error: null }] : []
      return { ...seen, changes: [...opened, ...seen.changes] }
    }
    const over = closed(node, seen.over)
    const state = over.ok ? 'completed' : 'failed'
    const note = { ...seen.note, partial: seen.over.partial, ended: over.ended }
    const change: ContainerChange = { ...at, state, note, error: over.error }
    this.#steps.close(change, state)
    return { ...seen, over, changes: [...seen.changes, change] }
  }

  #sequence(node: SequenceNode, where: Where): Seen & { readonly note: ContainerNote } {
    const changes: ContainerChange[] = []
    let partial: string | null = null
    for (const part of node.nodes) {
      const seen = this.visit(part, where)
      changes.push(...seen.changes)
      if (seen.over === null) return { ...seen, changes, note: NO_NOTE }
      partial = worse(partial, seen.over.partial)
      if (seen.over.fatal) return over({ ...DONE, ok: false, error: seen.over.error, partial }, changes)
      if (seen.over.ended !== null) return over({ ...DONE, partial, ended: seen.over.ended }, changes)
    }
    return over({ ...DONE, partial }, changes)
  }

  #parallel(node: ParallelNode, where: Where): Seen & { readonly note: ContainerNote } {
    return { ...together(node.branches.map((part) => this.visit(part, where))), note: NO_NOTE }
  }

  #branch(node: BranchNode, where: Where & { readonly path: string }): Seen & { readonly note: ContainerNote } {
    const begun = this.#steps.get(where.path)
    const side = begun === undefined ? this.#side(node, where.items) : noteOf(begun).taken
    if (side instanceof ExpressionFault) return over(faulty(side, where.path), [])
    const note = { ...NO_NOTE, taken: side }
    const part = side === 'yes' ? node.yes : side === 'no' ? node.no : undefined
    if (part === undefined) return { ...over(DONE, []), note }
    const seen = this.visit(part, where)
    if (seen.over === null) return { ...seen, note }
    const { fatal, error, partial, ended } = seen.over
    return { ...over({ ok: !fatal, fatal, error: fatal ? error : null, partial, ended }, seen.changes), note }
  }

  #side(node: BranchNode, items: Items): 'yes' | 'no' | null | ExpressionFault {
    const answer = this.#attempt(() => this.#values.evaluate(node.when, items))
    if (answer instanceof ExpressionFault) return answer
    if (typeof answer !== 'boolean') return new ExpressionFault('the condition answered neither true nor false', null)
    return answer ? 'yes' : node.no === undefined ? null : 'no'
  }

  #map(node: MapNode, where: Where & { readonly path: string }): Seen & { readonly note: ContainerNote } {
    const begun = this.#steps.get(where.path)
    const count = begun === undefined ? this.#count(node, where) : noteOf(begun).items
    if (typeof count !== 'number') return over(count, [])
    const note = { ...NO_NOTE, items: count }
    const overs: Seen[] = []
    const begunItems: Seen[] = []
    const freshItems: Seen[] = []
    let open = 0
    let places = node.fanoutConcurrency
    for (let index = 0; index < count; index += 1) {
      const items = [...where.items, { map: node.id, as: node.as, path: where.path, index }]
      const fresh = !this.#steps.has(pathOf(prefixOf(items), node.node.id))
      // Items begin in order, so everything behind enough fresh ones is fresh too and cannot begin now.
      if (fresh && freshItems.length >= node.fanoutConcurrency) {
        open += count - index
        break
      }
      const seen = this.visit(node.node, { items, parent: where.path })
      if (seen.over !== null) overs.push(seen)
      else {
        open += 1
        if (seen.holdsPlace) places -= 1
        if (seen.holdsPlace) begunItems.unshift(seen)
        else (fresh ? freshItems : begunItems).push(seen)
      }
    }
    if (open === 0) return { ...together(overs), note }
    const chosen = [...begunItems, ...freshItems].filter((seen) => {
      if (seen.holdsPlace) return true
      if (seen.ready.length === 0) return true
      places -= 1
      return places >= 0
    })
    return {
      over: null,
      ready: chosen.flatMap(({ ready }) => ready),
      changes: [...overs, ...chosen].flatMap(({ changes }) => changes),
      holdsPlace: chosen.some(({ holdsPlace }) => holdsPlace),
      note,
    }
  }

  #count(node: MapNode, { path, items }: { readonly path: string; readonly items: Items }): number | Over {
    const list = this.#attempt(() => this.#values.list(node.over, { path, items }))
    if (list instanceof ExpressionFault) return faulty(list, path)
    if (list.length <= node.maxItems) return list.length
    const message = `the list has ${list.length} items, and this map takes at most ${node.maxItems}`
    return { ...DONE, ok: false, fatal: true, error: { code: 'too_many_items', message, at: path } }
  }

  #attempt<T>(work: () => T): T | ExpressionFault {
    try {
      return work()
    } catch (error) {
      if (error instanceof ExpressionFault) return error
      throw error
    }
  }
}

/** The parts of a parallel or a map: over when all of them are, failed when one is, by the first in their order. */
function together(parts: readonly Seen[]): Seen {
  const changes = parts.flatMap((seen) => seen.changes)
  const overs = parts.flatMap((seen) => (seen.over === null ? [] : [seen.over]))
  if (overs.length < parts.length)
    return {
      over: null,
      ready: parts.flatMap(({ ready }) => ready),
      changes,
      holdsPlace: parts.some(({ holdsPlace }) => holdsPlace),
    }
  const failed = overs.find(({ fatal }) => fatal)
  const partial = overs.reduce<string | null>((worst, one) => worse(worst, one.partial), null)
  return over({ ...DONE, ok: failed === undefined, error: failed?.error ?? null, partial }, changes)
}

function over(how: Over, changes: readonly ContainerChange[]): Seen & { readonly note: ContainerNote } {
  return { over: how, ready: [], changes, holdsPlace: false, note: NO_NOTE }
}

function faulty(fault: ExpressionFault, at: string): Over {
  return { ...DONE, ok: false, fatal: true, error: { code: 'expression_failed', message: fault.message, at } }
}

/** How a container whose parts are over is over itself. */
function closed(node: ContainerNode, { ok, error, partial, ended }: Over): Over {
  if (ok) return { ...DONE, partial, ended }
  const goesOn = node.continueOnError === true
  return { ok: false, fatal: !goesOn, error, partial: goesOn ? 'step_failed' : partial, ended: null }
}

function overOf(node: WorkflowNode, { state, error, output }: StepView): Over {
  const isLeaf = partsOf(node).length === 0 && (node.kind === 'tool' || node.kind === 'agent' || node.kind === 'wait')
  if (state === 'completed') {
    if (!isLeaf) return { ...DONE, partial: (output as ContainerNote).partial, ended: (output as ContainerNote).ended }
    return { ...DONE, partial: error?.code === 'child_partial' ? 'step_partial' : null }
  }
  const goesOn = node.continueOnError === true
  return { ok: false, fatal: !goesOn, error, partial: goesOn ? 'step_failed' : null, ended: null }
}

/** A failed step weighs more than one that was cut short. */
function worse(a: string | null, b: string | null): string | null {
  if (a === 'step_failed' || b === 'step_failed') return 'step_failed'
  return a ?? b
}
