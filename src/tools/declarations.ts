import type { z } from 'zod'
import { bareCopy, frozenCopy, validateArguments } from './arguments.ts'
import type { ArgumentsVerdict } from './arguments.ts'
import { canonicalJson, schemaHash } from './canonical.ts'
import type { HandlerOf } from './handler.ts'
import type { HandlerContext, ToolInvocation } from './invocation.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { isJsonObject } from './json.ts'
import type { HandlerAnswer, SideEffects, ToolKind, ToolSpec } from './models.ts'
import { compileSchema } from './schema.ts'
import { emitSchema, parseWith } from './zod-schema.ts'
import type { EmittedSchema, ParseVerdict, SchemaDefect } from './zod-schema.ts'

/** A spec before the registry has given it the version its schema hash is stored under. */
export type SpecDraft<Name extends string = string> = Omit<ToolSpec, 'version' | 'name'> & { readonly name: Name }

/** A contract with the code behind it. Built by the factories below; {@link buildRegistry} decides whether it may run. */
export interface ToolDeclaration<Name extends string = string> {
  readonly spec: SpecDraft<Name>
  readonly handler: HandlerOf<JsonObject, unknown>
  /** Second half of the input contract: what JSON Schema cannot say, and defaults. */
  readonly parse: (args: JsonObject) => ParseVerdict
  /** Writes the schemas once more; the registry compares, because a contract that changes by itself is none. */
  readonly emit: () => Readonly<Record<'input' | 'output', EmittedSchema>>
  /** Accounts at vendors that a call may use; for the arithmetic of their limits. */
  readonly vendors: readonly string[]
  /**
   * `later` for a paid call that only submits work: what it costs is known, and written, when the vendor has finished. In
   * the code and not in the spec, so that no stored contract can excuse a call from being counted.
   */
  readonly settles?: 'later'
  /** Faults of the declared schemas, reported with every other when the registry is built. */
  readonly defects: readonly SchemaDefect[]
}

/** For an inline handler: the same signature as `ToolHandler.execute`. */
export type HandlerFunction<In, Out> = (
  invocation: ToolInvocation,
  args: In,
  context: HandlerContext,
) => Promise<HandlerAnswer<Out>>

type InputSchema = z.ZodObject
type OutputSchema = z.ZodType

interface CommonOptions<Name extends string, Input extends InputSchema, Output extends OutputSchema> {
  readonly name: Name
  readonly description: string
  readonly input: Input
  /** Describes what the handler answers. It is not run: a transform in it would never happen, so none is accepted. */
  readonly output: Output
  readonly handler: HandlerOf<z.output<Input>, z.output<Output>> | HandlerFunction<z.output<Input>, z.output<Output>>
  /** Key the code is registered under; the tool's name unless another is given. */
  readonly handlerKey?: string
  /** Whether the handler's `preview` renders the approval line; by default, whether it has one. */
  readonly approvalPreview?: boolean
  /** Seconds, 30 unless given. */
  readonly timeoutS?: number
  readonly metered?: boolean
  readonly policyFacts?: readonly string[]
  readonly batchArgument?: string
  readonly maxBatchSize?: number
  readonly maxResults?: number
  readonly maxOutputBytes?: number
  readonly itemKind?: string
  /** Names of the vendor accounts a call may use. */
  readonly vendors?: readonly string[]
}

interface ReadOptions {
  readonly sideEffects: 'read'
  /** The arguments leave the organization: a search engine, a data vendor. Written out for every vendor's read. */
  readonly egress?: boolean
  readonly connection?: string
  readonly retry?: 'none' | 'safe'
  readonly repeatable?: undefined
  readonly downstreamKey?: undefined
  readonly downstreamKeyS?: undefined
  readonly onUnknown?: undefined
  readonly settles?: undefined
}

interface EffectOptions {
  /** Written out on purpose: that a repeat inside one run does nothing new is a promise, not a default. */
  readonly repeatable: false
  readonly retry?: 'none'
  /** The handler passes `context.idempotencyKey` on, and the receiver honours it. */
  readonly downstreamKey?: boolean
  /** Seconds for which the receiver remembers a key; without it, for ever. */
  readonly downstreamKeyS?: number
  /** What a claim whose lease ran out means. `ask` for a send that cannot pass a key on, otherwise `reclaim`. */
  readonly onUnknown?: 'reclaim' | 'ask'
}

interface WriteOptions extends EffectOptions {
  readonly sideEffects: 'write'
  readonly egress?: boolean
  readonly connection?: string
  /** For a metered write that submits a provider job, which writes the usage row when the job has ended. */
  readonly settles?: 'later'
}

interface SendOptions extends EffectOptions {
  readonly sideEffects: 'send'
  readonly egress?: undefined
  readonly connection: string
  readonly settles?: undefined
}

export type ToolOptions<Name extends string, Input extends InputSchema, Output extends OutputSchema> = CommonOptions<
  Name,
  Input,
  Output
> &
  (ReadOptions | WriteOptions | SendOptions)

/** Declares a tool whose handler works on the organization's own data. */
export function internalTool<const Name extends string, Input extends InputSchema, Output extends OutputSchema>(
  options: ToolOptions<Name, Input, Output>,
): ToolDeclaration<Name> {
  return declare('internal', options)
}

/**
 * Declares a tool whose handler talks to a vendor. Nothing about the vendor is inferred: connection, metering, retries
 * and limits are written out by whoever declares it. What it answers is always untrusted.
 */
export function vendorTool<const Name extends string, Input extends InputSchema, Output extends OutputSchema>(
  options: ToolOptions<Name, Input, Output>,
): ToolDeclaration<Name> {
  return declare('vendor', options)
}

function declare<Name extends string, Input extends InputSchema, Output extends OutputSchema>(
  kind: Exclude<ToolKind, 'mcp'>,
  options: ToolOptions<Name, Input, Output>,
): ToolDeclaration<Name> {
  const emit = (): Record<'input' | 'output', EmittedSchema> => ({
    input: emitSchema(options.input, 'input'),
    output: emitSchema(options.output, 'output'),
  })
  const { input, output } = emit()
  const handler = erase(options.handler)
  return {
    spec: specOf(options, {
      kind,
      input: input.schema,
      output: output.schema,
      previews: handler.preview !== undefined,
    }),
    handler,
    parse: (args) => parseWith(options.input, args),
    emit,
    vendors: Object.freeze([...(options.vendors ?? [])]),
    ...(options.settles === undefined ? {} : { settles: options.settles }),
    defects: [...input.defects, ...output.defects],
  }
}

interface Derived {
  readonly kind: Exclude<ToolKind, 'mcp'>
  readonly input: JsonObject
  readonly output: JsonObject
  readonly previews: boolean
}

function specOf<Name extends string, Input extends InputSchema, Output extends OutputSchema>(
  options: ToolOptions<Name, Input, Output>,
  { kind, input, output, previews }: Derived,
): SpecDraft<Name> {
  const downstreamKey = options.downstreamKey ?? false
  const spec: SpecDraft<Name> = {
    name: options.name,
    description: options.description,
    inputSchema: input,
    outputSchema: output,
    schemaHash: schemaHash(input, output),
    kind,
    binding: Object.freeze({ handlerKey: options.handlerKey ?? options.name }),
    sideEffects: options.sideEffects,
    egress: options.egress ?? options.sideEffects === 'send',
    connection: options.connection ?? null,
    timeoutS: options.timeoutS ?? 30,
    retry: options.retry ?? 'none',
    metered: options.metered ?? false,
    repeatable: options.repeatable ?? null,
    approvalPreview: options.approvalPreview ?? previews,
    policyFacts: Object.freeze([...(options.policyFacts ?? [])]),
    batchArgument: options.batchArgument ?? null,
    maxBatchSize: options.maxBatchSize ?? null,
    maxResults: options.maxResults ?? null,
    maxOutputBytes: options.maxOutputBytes ?? null,
    itemKind: options.itemKind ?? null,
    downstreamKey,
    downstreamKeyS: options.downstreamKeyS ?? null,
    onUnknown: options.onUnknown ?? unknownDefault(options.sideEffects, downstreamKey),
  }
  return Object.freeze(spec)
}

/** A send whose receiver cannot recognise a repeat is not repeated on a guess: a person says whether it arrived. */
function unknownDefault(sideEffects: SideEffects, downstreamKey: boolean): 'reclaim' | 'ask' {
  return sideEffects === 'send' && !downstreamKey ? 'ask' : 'reclaim'
}

/**
 * Forgets the types of a handler. Sound because the invoker hands over only what `parse` answered, and checks the
 * answer against the output schema.
 */
function erase<In, Out>(handler: HandlerOf<In, Out> | HandlerFunction<In, Out>): HandlerOf<JsonObject, unknown> {
  if (typeof handler === 'function') return { execute: handler as HandlerFunction<JsonObject, unknown> }
  const erased = handler as HandlerOf<JsonObject, unknown>
  // Code without types can hand over anything; the registry says that it does not resolve.
  if (typeof erased?.execute !== 'function') return { ...erased }
  const execute = erased.execute.bind(erased)
  return typeof erased.preview === 'function' ? { execute, preview: erased.preview.bind(erased) } : { execute }
}

export type ParsedArguments =
  | { readonly kind: 'parsed'; readonly args: JsonObject }
  | { readonly kind: 'invalid'; readonly message: string }

/** The tool's own input schema broke a promise at run time; no arguments of a model can mend it. */
export class ToolDefectError extends Error {
  override readonly name = 'ToolDefectError'
}

/**
 * Checks arguments against the contract a run was shown, then parses them. The parsed value is what is hashed, shown
 * to a person, stored and executed, so it must be plain JSON, a second parse must not change it, and nothing can write to it.
 *
 * A frozen contract that is no longer the live one is checked alone: its call ends as `tool_changed`, and the live
 * parser would judge it by rules the model never saw.
 *
 * @param frozen the contract of the run's snapshot; the declaration's own unless given
 * @throws ToolDefectError
 */
export function parseArguments(
  declaration: ToolDeclaration,
  args: unknown,
  frozen: Pick<ToolSpec, 'inputSchema' | 'schemaHash'> = declaration.spec,
): ParsedArguments {
  const checked: ArgumentsVerdict = validateArguments(frozen.inputSchema, args)
  if (checked.kind === 'invalid') return checked
  if (frozen.schemaHash !== declaration.spec.schemaHash) return { kind: 'parsed', args: frozenCopy(checked.args) }
  const parsed = parseOnce(declaration, checked.args)
  if (parsed.kind === 'invalid') return { kind: 'invalid', message: `arguments: ${parsed.message}`.slice(0, 500) }
  return { kind: 'parsed', args: frozenCopy(settledArguments(declaration, checked.args, parsed.value)) }
}

function parseOnce({ parse, spec }: ToolDeclaration, args: JsonObject): ParseVerdict {
  try {
    return parse(bareCopy(args) as JsonObject)
  } catch (error) {
    throw new ToolDefectError(`${spec.name}: parsing its arguments failed`, { cause: error })
  }
}

function settledArguments(declaration: ToolDeclaration, args: JsonObject, value: unknown): JsonObject {
  const { name, inputSchema } = declaration.spec
  const text = plainText(value)
  if (text === null || !isJsonObject(value))
    throw new ToolDefectError(`${name}: its input schema makes something that is not plain JSON`)
  const again = [parseOnce(declaration, value), parseOnce(declaration, args)]
  const settled = again.every((verdict) => verdict.kind === 'parsed' && plainText(verdict.value) === text)
  if (!settled) throw new ToolDefectError(`${name}: parsing its arguments twice gives two answers`)
  if (compileSchema(inputSchema).validate(value).kind === 'invalid') {
    throw new ToolDefectError(`${name}: its parsed arguments do not match its own input schema`)
  }
  return value
}

/** Canonical text of a value that is plain JSON through and through; null for one that JSON would change or drop. */
function plainText(value: unknown): string | null {
  if (!isPlain(value)) return null
  try {
    return canonicalJson(value)
  } catch {
    return null
  }
}

function isPlain(value: unknown): value is JsonValue {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object') return false
  if (Array.isArray(value)) return value.every(isPlain)
  const prototype: unknown = Object.getPrototypeOf(value)
  return (prototype === Object.prototype || prototype === null) && Object.values(value).every(isPlain)
}
