import type { ObservedCall, ObservedEvent, ObservedRun, Observer } from '../observing/observer.ts'
import type { Logger } from '../tools/invoker.ts'

/**
 * One line for each decision, each call that ended badly or was replayed, each answer of a person and each end of a run.
 * Names of fields are an interface: `run`, `root`, `organization`, `agent`, `tool`, `code`, `attempt`, `ms`. No line holds
 * an argument, an answer, a text of a model or a note of a person.
 */
export function loggedEvents(logger: Pick<Logger, 'info'>): Observer {
  return {
    observe(event) {
      const line = lineOf(event)
      if (line !== null) logger.info(line.message, { event: event.kind, ...line.fields })
    },
  }
}

interface Line {
  readonly message: string
  readonly fields: Readonly<Record<string, string | number | boolean | null>>
}

function lineOf(event: ObservedEvent): Line | null {
  switch (event.kind) {
    case 'decision': {
      const { effect, rule, stage } = event
      return { message: `decided: ${effect}`, fields: { ...callFields(event), effect, rule, stage } }
    }
    case 'call_ended':
      return callLine(event)
    case 'question_answered': {
      const { organizationId: organization, runId: run, tool, state, waitedMs: ms } = event
      return { message: `approval ${state}`, fields: { run, organization, tool, state, ms } }
    }
    case 'questions_expired':
      return { message: 'approvals ran out', fields: { count: event.count } }
    case 'run_ended': {
      const { status, reason: code, lane, turns, ms } = event
      return { message: `run ${status}`, fields: { ...runFields(event), status, code, lane, turns, ms } }
    }
    case 'run_created':
    case 'segment_started':
    case 'segment_ended':
    case 'turn_started':
    case 'turn_ended':
    case 'question_filed':
    case 'spent':
    case 'dropped':
      return null
  }
}

/** A call that went well says nothing its decision has not said; a held one has its question. */
function callLine(event: Extract<ObservedEvent, { kind: 'call_ended' }>): Line | null {
  const { outcome, code, attempt, replayed, claim, ms } = event
  if (outcome === 'held' || (outcome === 'ok' && !replayed)) return null
  const message = replayed ? 'replayed' : claim === null ? 'refused' : 'failed'
  return { message: `call ${message}`, fields: { ...callFields(event), code, attempt, replayed, claim, ms } }
}

function runFields({ runId: run, rootRunId: root, organizationId: organization, agent }: ObservedRun) {
  return { run, root, organization, agent }
}

/** A name that no tool has is whatever the model wrote, and is left out. */
function callFields(event: ObservedCall) {
  return { ...runFields(event), tool: event.admitted ? event.tool : null }
}
