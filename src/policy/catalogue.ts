import type { FactResolver, FactType } from '../tools/handler.ts'
import type { ToolSpec } from '../tools/models.ts'

/**
 * What a rule may name. Read at every use, never copied: tools of remote servers come and go while rules stay.
 */
export interface PolicyCatalogue {
  /** Platform name of each tool, with the facts it declares. */
  readonly tools: ReadonlyMap<string, readonly string[]>
  /** Every fact that has a resolver, with its declared type. */
  readonly facts: ReadonlyMap<string, FactType>
}

export function policyCatalogue(
  specs: Iterable<Pick<ToolSpec, 'name' | 'policyFacts'>>,
  resolvers: Iterable<Pick<FactResolver, 'name' | 'type'>>,
): PolicyCatalogue {
  return {
    tools: new Map(Array.from(specs, (spec) => [spec.name, spec.policyFacts])),
    facts: new Map(Array.from(resolvers, (resolver) => [resolver.name, resolver.type])),
  }
}
