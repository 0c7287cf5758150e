import { jsonSchema, type JSONSchema7, type Tool, type ToolSet } from 'ai'
import type { JsonValue } from '../../tools/json.ts'
import { modelNames } from '../../tools/model-names.ts'
import { MAX_MODEL_TOOL_NAME_LENGTH, modelToolName, takesClaim, type ToolSpec } from '../../tools/models.ts'
import { providerSchema } from './provider-schema.ts'

/** One read, asked for by the framework. */
export interface ReadCall {
  /** The framework's id of the call. */
  readonly callId: string
  /** Platform name. */
  readonly toolName: string
  readonly args: JsonValue
}

/** The contracts of one segment. */
export interface SegmentContracts {
  readonly contracts: readonly ToolSpec[]
  /** Reads that are proposed like writes; none unless given. */
  readonly pausable?: ReadonlySet<string>
}

/** Runs one read and answers the text the model reads. Whatever it throws would become a text too, so it must not throw. */
export type ReadExecutor = (call: ReadCall) => Promise<string>

export interface DeclaredTools {
  /** By model-facing name, in the order of the contracts. Reads have an `execute`; whatever may have to wait has none. */
  readonly tools: ToolSet
  /** Whether calls of this contract run inside the framework's loop. */
  runsInLoop(contract: ToolSpec): boolean
  /** The contract behind a name a model wrote, or undefined for a name this segment does not know. */
  contractOf(name: string): ToolSpec | undefined
}

/** The names every provider accepts. */
const MODEL_NAME = new RegExp(`^[a-zA-Z0-9_-]{1,${MAX_MODEL_TOOL_NAME_LENGTH}}$`)

/**
 * Declares the frozen contracts of one segment. The map from model-facing to platform names lives here and nowhere else,
 * and it is checked again because a segment reads the frozen snapshot of its run, not the registry.
 *
 * @throws ModelNameCollision when two contracts share a model-facing name, or one is longer than providers accept
 */
export function declareTools({ contracts, pausable }: SegmentContracts, read: ReadExecutor): DeclaredTools {
  const runsInLoop = (contract: ToolSpec): boolean => !takesClaim(contract) && pausable?.has(contract.name) !== true
  const declared = contracts.map((contract) => [
    modelToolName(contract.name),
    declare(contract, runsInLoop(contract) ? read : null),
  ])
  const names = modelNames(contracts)
  const byPlatformName = new Map(contracts.map((contract) => [contract.name, contract]))
  return {
    tools: Object.fromEntries(declared) as ToolSet,
    runsInLoop,
    // A model that was told platform names in its instructions may write one; the two sets of names cannot overlap.
    contractOf: (name) => byPlatformName.get(names.get(name) ?? name),
  }
}

/**
 * A name that may stand in the history sent to a provider: as declared, as the model wrote it, or a placeholder. A
 * provider that refuses a character in a declaration refuses it in the history too, and a provider package may look a
 * name up in a plain object: `constructor` then finds a function, and every later turn is refused.
 */
export function historyName(written: string, contract: ToolSpec | undefined): string {
  if (contract !== undefined) return modelToolName(contract.name)
  return MODEL_NAME.test(written) && !(written in Object.prototype) ? written : 'unknown_tool'
}

function declare(contract: ToolSpec, read: ReadExecutor | null): Tool {
  // Without a validate function the AI SDK hands on whatever JSON the model wrote, so that only the invoker judges it.
  const inputSchema = jsonSchema<JsonValue>(providerSchema(contract.inputSchema) as JSONSchema7)
  const { description } = contract
  if (read === null) return { description, inputSchema, outputSchema: jsonSchema({}) }
  const toolName = contract.name
  return {
    description,
    inputSchema,
    execute: (args: JsonValue, { toolCallId }: { toolCallId: string }) => read({ callId: toolCallId, toolName, args }),
  }
}
