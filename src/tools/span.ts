import type { ToolInvocation } from './invocation.ts'
import type { AmbientSpans, ProposedCall, SpanSubject } from './invoker.ts'
import { normalise } from './normalise.ts'
import { redact } from './redact.ts'
import { bound } from './bound.ts'
import { PLATFORM_OUTPUT_BYTES } from './models.ts'

interface SpanClock {
  readonly ambient: AmbientSpans
  readonly now: () => Date
  readonly newId: () => string
}

/** Names longer than this come from a model that makes them up; the tree keeps the head. */
const MAX_NAME = 128

/**
 * Opens the tool span before the first checkpoint, so that a refused call is in the tree. The arguments are redacted
 * here: the model wrote them, and the recorder relies on it.
 */
export function openSpan(clock: SpanClock, proposed: ProposedCall, invocation: ToolInvocation): SpanSubject {
  const scope = clock.ambient.current()
  return {
    invocation,
    rootRunId: scope?.rootRunId ?? null,
    toolName: proposed.toolName.slice(0, MAX_NAME),
    span: {
      id: clock.newId(),
      parentId: scope?.spanId ?? null,
      startedAt: clock.now(),
      input: bound(redact(normalise(proposed.args), []), PLATFORM_OUTPUT_BYTES).value,
    },
  }
}

/** Makes the span current for everything the call does. Outside a run scope there is no tree to stand in. */
export async function insideSpan<T>(ambient: AmbientSpans, subject: SpanSubject, work: () => Promise<T>): Promise<T> {
  if (subject.rootRunId === null) return work()
  const { organizationId, runId } = subject.invocation
  return ambient.enter({ organizationId, runId, rootRunId: subject.rootRunId, spanId: subject.span.id }, work)
}
