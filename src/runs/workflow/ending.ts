import { ExpressionFault } from '../../policy/expression.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { WorkflowOutcome } from './outcome.ts'
import type { RunEnding } from '../run-store.ts'
import type { WorkflowDefinition } from './definition.ts'
import { render } from './template.ts'
import type { Values } from './scope.ts'
import type { WorkflowEnd } from './schedule.ts'

type Defined = Pick<WorkflowDefinition, 'root' | 'output'>

/** Bytes of a run's output. */
const MAX_OUTPUT_BYTES = 1024 * 1024

/** How a workflow that came to its end ends its run. */
export function endingOfWorkflow(end: WorkflowEnd, definition: Defined, values: Values): WorkflowOutcome {
  if (!end.ok) {
    const { code, message, at } = end.error ?? { code: 'internal_error' as const, message: '' }
    return { kind: 'failed', code, message: at === undefined ? message : `step ${at}: ${message}` }
  }
  const output = outputOf(definition, values)
  if (output instanceof ExpressionFault) return ended(partial('expression_failed', output.message, null))
  if (tooLarge(output)) return ended(partial('output_too_large', 'the output is over 1 MB; the steps hold it', null))
  if (end.partial !== null) return ended(partial(end.partial, wordsFor(end.partial), output))
  return ended({ status: 'completed', reason: null, message: null, output })
}

/** How a workflow that had to stop ends its run: with what it has. */
export function endingWithout(reason: string, definition: Defined, values: Values): WorkflowOutcome {
  const known = (source: string): JsonValue => {
    try {
      return values.evaluate(source, [])
    } catch (error) {
      if (error instanceof ExpressionFault) return null
      throw error
    }
  }
  const output =
    definition.output === undefined ? values.outputOf(definition.root, []) : render(definition.output, known)
  return ended(partial(reason, wordsFor(reason), tooLarge(output) ? null : output))
}

function outputOf(definition: Defined, values: Values): JsonValue | ExpressionFault {
  if (definition.output === undefined) return values.outputOf(definition.root, [])
  try {
    return values.render(definition.output, [])
  } catch (error) {
    if (error instanceof ExpressionFault) return error
    throw error
  }
}

function tooLarge(output: JsonValue): boolean {
  return Buffer.byteLength(JSON.stringify(output)) > MAX_OUTPUT_BYTES
}

function wordsFor(reason: string): string {
  switch (reason) {
    case 'step_failed':
      return 'a step failed, and the workflow went on without it'
    case 'step_partial':
      return 'a run that a step started was cut short'
    case 'max_duration':
    case 'max_cost':
    case 'max_cost_day':
    case 'max_tool_calls':
      return 'the run reached a ceiling'
    default:
      return 'the run stopped with the work it had done'
  }
}

function partial(reason: string, message: string, output: JsonValue): RunEnding {
  return { status: 'partial', reason, message, output }
}

function ended(ending: RunEnding): WorkflowOutcome {
  return { kind: 'ended', ending }
}
