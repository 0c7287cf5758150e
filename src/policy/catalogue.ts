import type { FactResolver, FactType } from '../tools/handler.ts'
import type { ToolSpec } from '../tools/models.ts'

/**
 * What a rule may name. Read at every use, never copied: tools of remote servers come and go while rules stay.
 */
export interface PolicyCatalogue {
  /** Platform name of each tool, with the facts it declares. */
  readonly tools: ReadonlyMap<string, readonly string[]>
  /** Tools whose calls carry their arguments out of the organization. */
  readonly egress: ReadonlySet<string>
  /** Every fact that has a resolver, with its declared type. */
  readonly facts: ReadonlyMap<string, FactType>
}

export function policyCatalogue(
  specs: Iterable<Pick<ToolSpec, 'name' | 'policyFacts' | 'egress'>>,
  resolvers: Iterable<Pick<FactResolver, 'name' | 'type'>>,
): PolicyCatalogue {
  const known = [...specs]
  return {
    tools: new Map(known.map((spec) => [spec.name, spec.policyFacts])),
    egress: new Set(known.filter((spec) => spec.egress).map((spec) => spec.name)),
    facts: new Map(Array.from(resolvers, (resolver) => [resolver.name, resolver.type])),
  }
}
