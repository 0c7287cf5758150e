import type { ToolDeclaration } from './declarations.ts'
import type { FactResolver } from './handler.ts'
import type { ToolSpec } from './models.ts'
import { checkDeclaration, checkResolvers, checkUniqueness } from './registry-checks.ts'
import { RegistryError } from './registry-faults.ts'
import { nearest } from './spelling.ts'

export interface ToolRegistry<Name extends string = string> {
  /** The live contract; undefined for a name that is not registered. */
  get(name: string): ToolSpec | undefined
  /** The code behind a contract. */
  declaration(name: string): ToolDeclaration | undefined
  /** @throws UnknownToolError naming every unknown one */
  resolve(names: readonly string[]): ToolSpec[]
  names(): readonly Name[]
  readonly facts: ReadonlyMap<string, FactResolver>
}

/** Gives a schema hash its version: a stored function, so that two deployments side by side never disagree. */
export interface VersionStore {
  versionOf(name: string, schemaHash: string, spec: Omit<ToolSpec, 'version'>): Promise<number>
}

export interface RegistryOptions {
  readonly facts?: readonly FactResolver[]
  /** Without one every contract is version 1, and drift shows by its schema hash alone. */
  readonly versions?: VersionStore
}

export class UnknownToolError extends Error {
  override readonly name = 'UnknownToolError'
  readonly tools: readonly string[]
  constructor(tools: readonly string[], message: string) {
    super(message)
    this.tools = tools
  }
}

/**
 * Checks every declaration and builds the registry the runtime resolves from. A broken declaration never enters it:
 * all faults of all tools are reported in one error.
 *
 * @throws RegistryError
 */
export async function buildRegistry<const Declarations extends readonly ToolDeclaration[]>(
  declarations: Declarations,
  options: RegistryOptions = {},
): Promise<ToolRegistry<Declarations[number]['spec']['name']>> {
  const resolvers = options.facts ?? []
  const facts = new Map(resolvers.map((resolver) => [resolver.name, resolver]))
  const faults = [
    ...checkResolvers(resolvers),
    ...declarations.flatMap((declaration) => checkDeclaration(declaration, facts)),
    ...checkUniqueness(declarations.map(({ spec }) => spec)),
  ]
  if (faults.length > 0) throw new RegistryError(faults)
  const specs = new Map<string, ToolSpec>()
  for (const { spec } of declarations) {
    const version = (await options.versions?.versionOf(spec.name, spec.schemaHash, spec)) ?? 1
    specs.set(spec.name, Object.freeze({ ...spec, version }))
  }
  return new MapRegistry(specs, new Map(declarations.map((declaration) => [declaration.spec.name, declaration])), facts)
}

/** Maps, not objects: a name is data, and `constructor` or `__proto__` must find nothing. */
class MapRegistry<Name extends string> implements ToolRegistry<Name> {
  readonly facts: ReadonlyMap<string, FactResolver>
  readonly #specs: ReadonlyMap<string, ToolSpec>
  readonly #declarations: ReadonlyMap<string, ToolDeclaration>

  constructor(
    specs: ReadonlyMap<string, ToolSpec>,
    declarations: ReadonlyMap<string, ToolDeclaration>,
    facts: ReadonlyMap<string, FactResolver>,
  ) {
    this.#specs = specs
    this.#declarations = declarations
    this.facts = facts
  }

  get(name: string): ToolSpec | undefined {
    return this.#specs.get(name)
  }

  declaration(name: string): ToolDeclaration | undefined {
    return this.#declarations.get(name)
  }

  resolve(names: readonly string[]): ToolSpec[] {
    const unknown = names.filter((name) => !this.#specs.has(name))
    if (unknown.length > 0) throw new UnknownToolError(unknown, this.#unknownMessage(unknown))
    return names.flatMap((name) => this.#specs.get(name) ?? [])
  }

  names(): readonly Name[] {
    return [...this.#specs.keys()] as Name[]
  }

  #unknownMessage(unknown: readonly string[]): string {
    const lines = unknown.map((name) => {
      const meant = nearest(name, this.#specs.keys())
      const shown = JSON.stringify(name.slice(0, 128))
      return meant === null ? `${shown} is not registered` : `${shown} is not registered; did you mean ${meant}?`
    })
    return `unknown ${unknown.length === 1 ? 'tool' : 'tools'}: ${lines.join('; ')}`
  }
}
