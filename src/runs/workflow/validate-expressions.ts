import { compileValue } from '../../policy/value-expression.ts'
import { nearest } from '../../tools/spelling.ts'
import type { Template, WorkflowDefinition, WorkflowNode } from './definition.ts'
import { type WorkflowFault } from './fault.ts'
import { variablesFor } from './scope.ts'
import { spotsIn } from './template.ts'
import { readableFrom, type MapName, type Place } from './tree.ts'

/** Expressions that do not compile, or read what has not run before them. */
export function expressionFaults(definition: WorkflowDefinition, places: readonly Place[]): readonly WorkflowFault[] {
  const ids = new Set(places.map(({ node }) => node.id))
  const ofNodes = places.flatMap((place) =>
    textsOf(place.node).flatMap((text) =>
      textFaults({ ...text, node: place.node.id, maps: place.maps, readable: place.before, ids }),
    ),
  )
  const before = new Set(readableFrom(definition.root))
  const output = definition.output === undefined ? [] : templateTexts('output', definition.output)
  return [...ofNodes, ...output.flatMap((text) => textFaults({ ...text, node: null, maps: [], readable: before, ids }))]
}

interface Text {
  readonly field: string
  /** Null where something looks like an expression and is none. */
  readonly source: string | null
  readonly answers?: 'bool'
}

function textsOf(node: WorkflowNode): readonly Text[] {
  switch (node.kind) {
    case 'tool':
      return templateTexts('args', node.args)
    case 'agent':
      return templateTexts('input', node.input)
    case 'wait':
      return [
        ...(node.until === undefined ? [] : templateTexts('until', node.until)),
        ...(node.forS === undefined ? [] : templateTexts('forS', node.forS)),
        ...(node.providerJob === undefined ? [] : templateTexts('providerJob.jobId', node.providerJob.jobId)),
      ]
    case 'branch':
      return [{ field: 'when', source: node.when, answers: 'bool' }]
    case 'map':
      return [{ field: 'over', source: node.over }]
    case 'sequence':
    case 'parallel':
    case 'end':
      return []
  }
}

function templateTexts(field: string, template: Template): readonly Text[] {
  return spotsIn(template).map(({ at, source }) => ({
    field: at === '' || at.startsWith('[') ? `${field}${at}` : `${field}.${at}`,
    source,
  }))
}

interface Here extends Text {
  readonly node: string | null
  readonly maps: readonly MapName[]
  /** Ids that are over when the expression is evaluated. */
  readonly readable: ReadonlySet<string>
  readonly ids: ReadonlySet<string>
}

function textFaults(here: Here): WorkflowFault[] {
  const { node, field, source, maps, answers } = here
  const fault = (message: string, remedy: string): WorkflowFault => ({ node, field, message, remedy })
  if (source === null)
    return [fault('an object with $expr holds a text and nothing else but "$optional": true', 'write { "$expr": "…" }')]
  const variables = variablesFor(maps)
  const compiled = compileValue(source, { variables, ...(answers === undefined ? {} : { answers }) })
  if (compiled.kind === 'invalid') return [fault(compiled.message, 'correct the expression')]
  return compiled.expression.reads.flatMap(({ variable, key }) =>
    variable === 'steps' ? stepFaults(key, here, fault) : [],
  )
}

function stepFaults(
  id: string | null,
  { readable, ids }: Here,
  fault: (message: string, remedy: string) => WorkflowFault,
): WorkflowFault[] {
  if (id === null) return [fault('steps is read as a whole', 'read one step by its id, such as steps.search.output')]
  if (readable.has(id)) return []
  if (ids.has(id))
    return [
      fault(
        `step ${id} cannot be relied on to be over by then`,
        'read a step that stands before this one; of a map, the map itself',
      ),
    ]
  const meant = nearest(id, ids)
  return [
    fault(
      `there is no step ${JSON.stringify(id.slice(0, 60))}`,
      meant === null ? 'read a step of this workflow' : `did you mean ${meant}?`,
    ),
  ]
}
