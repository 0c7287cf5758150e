import type { JsonValue } from './json.ts'
import type { ToolSpec } from './models.ts'
import { normalise } from './normalise.ts'
import { compileSchema } from './schema.ts'

export type OutputVerdict =
  | { readonly kind: 'valid'; readonly data: JsonValue }
  /** The message is for the log and the span: a model learns only that the tool answered off its contract. */
  | { readonly kind: 'invalid'; readonly message: string }

/**
 * Turns what a handler answered into plain JSON and checks it against the output schema, before the boundary changes
 * its transport form: a bounded answer may hold markers and fewer items than the schema asks for.
 */
export function validateOutput(spec: Pick<ToolSpec, 'outputSchema'>, data: unknown): OutputVerdict {
  const plain = normalise(data)
  const verdict = compileSchema(spec.outputSchema).validate(plain)
  return verdict.kind === 'valid' ? { kind: 'valid', data: plain } : verdict
}
