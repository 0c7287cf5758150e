import type { Attributes } from '@opentelemetry/api'
import type { ObservedEvent, ObservedRun } from '../observing/observer.ts'

type Event<Kind extends ObservedEvent['kind']> = Extract<ObservedEvent, { kind: Kind }>

/* Names of the semantic conventions for generative AI (1.41), and `bailiff.*` for what these have no word for. */

export function runAttributes({ organizationId, runId, rootRunId, agent }: ObservedRun): Attributes {
  return {
    'gen_ai.agent.name': agent,
    'bailiff.organization.id': organizationId,
    'bailiff.run.id': runId,
    'bailiff.run.root_id': rootRunId,
  }
}

export function endedRunAttributes(event: Event<'run_ended'>): Attributes {
  return {
    ...runAttributes(event),
    'gen_ai.operation.name': 'invoke_agent',
    'bailiff.run.status': event.status,
    'bailiff.run.lane': event.lane,
    'bailiff.run.turns': event.turns,
    'bailiff.run.tool_calls': event.toolCalls,
    ...(event.reason === null ? {} : { 'bailiff.run.reason': event.reason }),
  }
}

export function segmentAttributes(event: Event<'segment_started'>): Attributes {
  return { ...runAttributes(event), 'bailiff.segment.id': event.segmentId, 'bailiff.run.lane': event.lane }
}

/** A definition names its model as `provider/model`. */
export function turnAttributes(event: Event<'turn_started'>): Attributes {
  const slash = event.model.indexOf('/')
  return {
    ...runAttributes(event),
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': slash === -1 ? event.model : event.model.slice(0, slash),
    'gen_ai.request.model': event.model.slice(slash + 1),
  }
}

export function endedTurnAttributes(event: Event<'turn_ended'>): Attributes {
  return {
    'gen_ai.provider.name': event.provider,
    'gen_ai.response.model': event.model,
    'gen_ai.usage.input_tokens': event.inputTokens,
    'gen_ai.usage.output_tokens': event.outputTokens,
    'bailiff.cost_cents': event.costCents,
  }
}

/** A name that no tool has is whatever the model wrote. */
export function toolName(event: Event<'call_ended'>): string {
  return event.admitted ? event.tool : 'unknown'
}

/** Neither the call's arguments nor its answer; and no id of the model's, since providers use one twice. */
export function callAttributes(event: Event<'call_ended'>): Attributes {
  const { decision } = event
  return {
    ...runAttributes(event),
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': toolName(event),
    'gen_ai.tool.type': 'function',
    'bailiff.outcome': event.outcome,
    'bailiff.replayed': event.replayed,
    'bailiff.untrusted': event.untrusted,
    ...(event.code === null ? {} : { 'bailiff.code': event.code }),
    ...(event.attempt === null ? {} : { 'bailiff.attempt': event.attempt }),
    ...(event.claim === null ? {} : { 'bailiff.claim': event.claim }),
    ...(decision === null
      ? {}
      : {
          'bailiff.decision': decision.effect,
          'bailiff.decision.stage': decision.stage,
          ...(decision.rule === null ? {} : { 'bailiff.rule': decision.rule }),
        }),
  }
}
