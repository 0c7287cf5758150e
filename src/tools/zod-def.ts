import type { z } from 'zod'

/** What a Zod schema was built from: the one place that reaches under Zod's public surface. */
export type ZodDef = z.core.$ZodTypes['_zod']['def']
export type ZodKind = ZodDef['type']

export function defOf(schema: z.core.$ZodType): ZodDef {
  // oxlint-disable-next-line no-underscore-dangle -- Zod's documented door for libraries
  return (schema as z.core.$ZodTypes)._zod.def
}

/** The checks attached to a schema, each as the definition it was built from. */
export function checksOf(def: ZodDef): readonly Readonly<Record<string, unknown>>[] {
  // oxlint-disable-next-line no-underscore-dangle -- as above
  return (def.checks ?? []).map((check) => ({ ...check._zod.def }))
}
