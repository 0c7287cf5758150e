import { MAX_MODEL_TOOL_NAME_LENGTH, modelToolName } from './models.ts'

/** Two contracts one model would read under one name, or a name no provider accepts. */
export class ModelNameCollision extends Error {
  override readonly name = 'ModelNameCollision'
  readonly modelName: string
  readonly tools: readonly string[]
  constructor(modelName: string, tools: readonly string[], problem: string) {
    super(`${tools.join(' and ')}: ${problem}`)
    this.modelName = modelName
    this.tools = tools
  }
}

/**
 * The names one segment shows its model, each with the platform name behind it. Checked again at every segment because
 * a segment reads a frozen snapshot, not the registry: an overwritten entry would send the right arguments to the
 * wrong handler.
 *
 * @throws ModelNameCollision
 */
export function modelNames(specs: Iterable<{ readonly name: string }>): Map<string, string> {
  const names = new Map<string, string>()
  for (const { name } of specs) {
    const derived = modelToolName(name)
    const problem = overlong(derived)
    if (problem !== null) throw new ModelNameCollision(derived, [name], problem)
    const taken = names.get(derived)
    if (taken !== undefined) {
      throw new ModelNameCollision(derived, [taken, name], `both would reach the model as ${derived}`)
    }
    names.set(derived, name)
  }
  return names
}

/** What is wrong with the length of a derived name; null when nothing is. Cutting it could map two names onto one. */
export function overlong(derived: string): string | null {
  if (derived.length <= MAX_MODEL_TOOL_NAME_LENGTH) return null
  return `the name a model would read has ${derived.length} characters, at most ${MAX_MODEL_TOOL_NAME_LENGTH}`
}
