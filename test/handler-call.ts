import { v7 as uuidv7 } from 'uuid'
import { withScope } from '../src/spans/ambient.ts'
import { parseArguments, type ToolDeclaration } from '../src/tools/declarations.ts'
import type { Credential, HandlerContext, ToolInvocation } from '../src/tools/invocation.ts'
import type { JsonObject } from '../src/tools/json.ts'
import type { HandlerAnswer } from '../src/tools/models.ts'
import { compileSchema } from '../src/tools/schema.ts'

/** One run of one organization, as far as a handler can see it. */
export interface TestRun {
  readonly organizationId: string
  readonly runId: string
  readonly rootRunId: string
}

export function testRun(part: Partial<TestRun> = {}): TestRun {
  return { organizationId: uuidv7(), runId: uuidv7(), rootRunId: uuidv7(), ...part }
}

export function invocationOf({ organizationId, runId }: TestRun): ToolInvocation {
  const startedBy = { kind: 'user', id: uuidv7(), name: 'Tester' } as const
  return {
    organizationId,
    userId: startedBy.id,
    runId,
    definitionId: uuidv7(),
    stepPath: 'agent',
    principal: { agent: 'test', userId: startedBy.id, roles: [], scopes: [], startedBy },
    ceilings: { maxTurns: 10, maxToolCalls: 10, maxDurationS: 60, maxCostCents: null },
    deadline: new Date(Date.now() + 60_000),
    source: 'library',
    contracts: {},
  }
}

export interface HandlerCall {
  readonly run: TestRun
  readonly args: JsonObject
  readonly context?: Partial<HandlerContext>
}

/** Arguments as the invoker would hand them over; throws for those it would refuse. */
export function admitted(declaration: ToolDeclaration, args: JsonObject): JsonObject {
  const parsed = parseArguments(declaration, args)
  if (parsed.kind === 'invalid') throw new Error(parsed.message)
  return parsed.args
}

/** Runs a handler inside its run's scope; throws for an answer off the tool's own contract. */
export async function callHandler(declaration: ToolDeclaration, call: HandlerCall): Promise<HandlerAnswer<unknown>> {
  const args = admitted(declaration, call.args)
  const unmetered = { record: () => Promise.reject(new Error(`${declaration.spec.name} is not metered`)) }
  const signal = new AbortController().signal
  const context = { credential: null, idempotencyKey: null, signal, meter: unmetered, ...call.context }
  const answer = await scoped(call.run, () => declaration.handler.execute(invocationOf(call.run), args, context))
  const checked = compileSchema(declaration.spec.outputSchema).validate(answer.data)
  if (checked.kind === 'invalid') throw new Error(`off the contract: ${JSON.stringify(answer.data)}`)
  return answer
}

export async function callPreview(declaration: ToolDeclaration, call: HandlerCall): Promise<string> {
  const { preview } = declaration.handler
  if (preview === undefined) throw new Error(`${declaration.spec.name} has no preview`)
  const args = admitted(declaration, call.args)
  return scoped(call.run, () => preview(invocationOf(call.run), args, new AbortController().signal))
}

function scoped<T>(run: TestRun, work: () => Promise<T>): Promise<T> {
  return withScope({ ...run, spanId: uuidv7() }, work)
}

export function credentialOf(settings: Readonly<Record<string, string>>): Credential {
  return { connectionId: uuidv7(), provider: 'email', settings, secrets: {} }
}
