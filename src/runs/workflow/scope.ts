import { ExpressionFault } from '../../policy/expression.ts'
import { compileValue, type ValueExpression } from '../../policy/value-expression.ts'
import type { VariableType } from '../../policy/vocabulary.ts'
import type { JsonObject, JsonValue } from '../../tools/json.ts'
import type { Template, WorkflowDefinition, WorkflowNode } from './definition.ts'
import type { ContainerNote, StepError } from './step.ts'
import { render } from './template.ts'
import { itemPrefix, pathOf, placesIn, type MapName, type Place } from './tree.ts'

/** A step as the scheduler sees it. `ready` has begun before and is to begin again. */
export interface StepView {
  readonly state: 'ready' | 'running' | 'waiting' | 'completed' | 'failed'
  readonly output: JsonValue
  readonly error: StepError | null
  /** Takes one of the places of its map: it runs, or another run works for it. */
  readonly holdsPlace: boolean
}

export type Steps = Pick<ReadonlyMap<string, StepView>, 'get' | 'has'>

/** One item of a map that a node stands in. */
export interface Item {
  readonly map: string
  readonly as: string
  /** Path of the map. */
  readonly path: string
  readonly index: number
}

/** Items a node stands in, outside in. */
export type Items = readonly Item[]

export function prefixOf(items: Items): string {
  const inner = items.at(-1)
  return inner === undefined ? '' : itemPrefix(inner.path, inner.index)
}

/** A definition with its nodes by id and its expressions compiled; built once for each definition object. */
export interface WorkflowIndex {
  readonly places: ReadonlyMap<string, Place>
  /** @throws ExpressionFault for a text that does not compile: this build refuses what an older one published */
  expression(maps: readonly MapName[], source: string): ValueExpression
}

const indexes = new WeakMap<object, WorkflowIndex>()

export function workflowIndex(definition: Pick<WorkflowDefinition, 'root'>): WorkflowIndex {
  const known = indexes.get(definition)
  if (known !== undefined) return known
  const places = new Map(placesIn(definition.root).map((place) => [place.node.id, place]))
  const compiled = new Map<string, ValueExpression>()
  const index: WorkflowIndex = {
    places,
    expression(maps, source) {
      const key = `${maps.map(({ as }) => as).join(' ')}\n${source}`
      const found = compiled.get(key)
      if (found !== undefined) return found
      const result = compileValue(source, { variables: variablesFor(maps) })
      if (result.kind === 'invalid') throw new ExpressionFault(result.message, result.position)
      compiled.set(key, result.expression)
      return result.expression
    },
  }
  indexes.set(definition, index)
  return index
}

/** Names an expression may read. */
export function variablesFor(maps: readonly MapName[]): Readonly<Record<string, VariableType>> {
  const items = Object.fromEntries(maps.map(({ as }): [string, VariableType] => [as, 'json']))
  return { input: 'json', steps: 'map', ...items, ...(maps.length === 0 ? {} : { index: 'int' }) }
}

/** Values of one moment of a run, for the expressions of its nodes. */
export class Values {
  readonly #index: WorkflowIndex
  readonly #input: JsonValue
  readonly #steps: Steps
  readonly #lists = new Map<string, readonly JsonValue[]>()

  constructor(
    definition: Pick<WorkflowDefinition, 'root'>,
    moment: { readonly input: JsonValue; readonly steps: Steps },
  ) {
    this.#index = workflowIndex(definition)
    this.#input = moment.input
    this.#steps = moment.steps
  }

  /** @throws ExpressionFault */
  evaluate(source: string, items: Items): JsonValue {
    const expression = this.#index.expression(items, source)
    return expression.evaluate(this.#variables(expression, items))
  }

  /** @throws ExpressionFault */
  render(template: Template, items: Items): JsonValue {
    return render(template, (source) => this.evaluate(source, items))
  }

  /** What a map goes over. @throws ExpressionFault */
  list(source: string, at: { readonly path: string; readonly items: Items }): readonly JsonValue[] {
    const known = this.#lists.get(at.path)
    if (known !== undefined) return known
    const value = this.evaluate(source, at.items)
    if (!Array.isArray(value)) throw new ExpressionFault('a map goes over a list', null)
    const list = value as readonly JsonValue[]
    this.#lists.set(at.path, list)
    return list
  }

  /** What a node answers, put together from the steps below it; null for one that did not run. */
  outputOf(node: WorkflowNode, items: Items): JsonValue {
    const path = pathOf(prefixOf(items), node.id)
    const step = this.#steps.get(path)
    if (step === undefined || step.state === 'failed') return null
    switch (node.kind) {
      case 'tool':
      case 'agent':
      case 'wait':
        return step.output
      case 'end':
        return null
      case 'sequence': {
        const last = node.nodes.at(-1)
        return last === undefined ? null : this.outputOf(last, items)
      }
      case 'parallel':
        return node.branches.map((part) => this.outputOf(part, items))
      case 'branch': {
        const { taken } = noteOf(step)
        const side = taken === 'yes' ? node.yes : taken === 'no' ? node.no : undefined
        return side === undefined ? null : this.outputOf(side, items)
      }
      case 'map':
        return Array.from({ length: noteOf(step).items }, (_, index) =>
          this.outputOf(node.node, [...items, { map: node.id, as: node.as, path, index }]),
        )
    }
  }

  #variables(expression: ValueExpression, items: Items): Record<string, JsonValue> {
    const inner = items.at(-1)
    const read = new Set(expression.reads.map(({ variable }) => variable))
    const names: [string, JsonValue][] = [['input', this.#input]]
    if (inner !== undefined) names.push(['index', inner.index])
    for (const [depth, item] of items.entries())
      if (read.has(item.as)) names.push([item.as, this.#item(item, items.slice(0, depth))])
    const keys = expression.reads.flatMap(({ variable, key }) => (variable === 'steps' && key !== null ? [key] : []))
    names.push(['steps', Object.fromEntries([...new Set(keys)].flatMap((id) => this.#step(id, items)))])
    return Object.fromEntries(names)
  }

  #item(item: Item, outer: Items): JsonValue {
    const map = this.#index.places.get(item.map)?.node
    if (map?.kind !== 'map') throw new ExpressionFault(`there is no map ${item.map}`, null)
    const value = this.list(map.over, { path: item.path, items: outer })[item.index]
    if (value === undefined) throw new ExpressionFault(`${item.as} has no value`, null)
    return value
  }

  /** A step that did not run has no value, so that `has(steps.x)` asks about it. */
  #step(id: string, items: Items): [string, JsonObject][] {
    const place = this.#index.places.get(id)
    if (place === undefined) return []
    const around = items.slice(0, place.maps.length)
    const step = this.#steps.get(pathOf(prefixOf(around), id))
    if (step === undefined || (step.state !== 'completed' && step.state !== 'failed')) return []
    const error = step.error === null ? null : { code: step.error.code, message: step.error.message }
    return [[id, { ok: step.state === 'completed', output: this.outputOf(place.node, around), error }]]
  }
}

export function noteOf(step: StepView): ContainerNote {
  return step.output as ContainerNote
}
