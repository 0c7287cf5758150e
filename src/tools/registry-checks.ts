import { factNameProblem, isReserved } from './fact-name.ts'
import type { ToolDeclaration } from './declarations.ts'
import type { FactResolver, FactType } from './handler.ts'
import { isJsonObject, own } from './json.ts'
import type { JsonObject, JsonValue } from './json.ts'
import { overlong } from './model-names.ts'
import { modelToolName, NAME_PATTERN, PLATFORM_OUTPUT_BYTES, STEP_BUDGET_S } from './models.ts'
import type { SideEffects } from './models.ts'
import type { RegistryFault } from './registry-faults.ts'
import { resolveLocalRef } from './schema-walk.ts'
import { schemaProblems } from './schema.ts'

type Spec = ToolDeclaration['spec']
type Finding = Omit<RegistryFault, 'tool'>

/** Characters of a description; the longest published one seen has 1,830. */
const MAX_DESCRIPTION = 4096

/** Bytes of `[]` and `{}`, the smallest structures an answer can be bounded to. */
const MIN_OUTPUT_BYTES = 2

/** Everything wrong with one declaration on its own. */
export function checkDeclaration(
  declaration: ToolDeclaration,
  facts: ReadonlyMap<string, FactResolver>,
): RegistryFault[] {
  const { spec } = declaration
  const findings = [
    ...checkName(spec),
    ...checkDescription(spec),
    ...checkSchemas(declaration),
    ...checkBinding(declaration),
    ...checkEffects(spec),
    ...checkSettling(declaration),
    ...checkLimits(spec),
    ...checkBatch(spec),
    ...checkResults(spec),
    ...checkFacts(spec, facts),
  ]
  return findings.map((finding) => ({ tool: spec.name, ...finding }))
}

function checkName({ name, kind }: Spec): Finding[] {
  if (typeof name !== 'string' || !NAME_PATTERN.test(name)) {
    return [
      finding(
        'name',
        'is not a valid platform name',
        'use domain.verb: lower case letters, digits and underscores, one dot',
      ),
    ]
  }
  if (kind !== 'mcp' && name.startsWith('mcp.')) {
    return [finding('name', 'the prefix mcp. belongs to remote servers', 'choose another domain')]
  }
  const problem = overlong(modelToolName(name))
  return problem === null ? [] : [finding('name', problem, 'shorten the name; it is never cut')]
}

function checkDescription({ description }: Spec): Finding[] {
  if (typeof description !== 'string' || description.trim() === '') {
    return [finding('description', 'is empty', 'say in a sentence or two what the tool does and when to use it')]
  }
  if (description.length <= MAX_DESCRIPTION) return []
  return [
    finding(
      'description',
      `has ${description.length} characters, at most ${MAX_DESCRIPTION}`,
      'move detail into the argument descriptions',
    ),
  ]
}

function checkSchemas({ spec, defects, emit }: ToolDeclaration): Finding[] {
  if (defects.length > 0) return defects.map((defect) => ({ ...defect }))
  const now = emit()
  return (['input', 'output'] as const).flatMap((side) => {
    const schema = side === 'input' ? spec.inputSchema : spec.outputSchema
    const problems = schemaProblems(schema, side).map((problem) => finding(side, problem, 'change the schema'))
    if (JSON.stringify(now[side].schema) === JSON.stringify(schema)) return problems
    const unstable = finding(
      side,
      'is a different schema each time it is written',
      'use constant defaults; a contract that changes by itself stops every run as tool_changed',
    )
    return [...problems, unstable]
  })
}

function checkBinding({ spec, handler }: ToolDeclaration): Finding[] {
  const found: Finding[] = []
  if (
    'handlerKey' in spec.binding
      ? spec.binding.handlerKey === ''
      : spec.binding.connectionId === '' || spec.binding.remoteName === ''
  ) {
    found.push(finding('binding', 'names nothing', 'name the handler, or the connection and the remote tool'))
  }
  if (typeof handler.execute !== 'function') {
    found.push(finding('handler', 'does not resolve to code', 'pass a function, or an object with execute()'))
  }
  if (spec.approvalPreview && typeof handler.preview !== 'function') {
    found.push(
      finding(
        'approvalPreview',
        'the handler has no preview()',
        'give the handler a preview(), or leave approvalPreview out',
      ),
    )
  }
  return found
}

const EFFECTS: ReadonlySet<SideEffects> = new Set(['read', 'write', 'send'])

function checkEffects(spec: Spec): Finding[] {
  if (!EFFECTS.has(spec.sideEffects)) return [finding('sideEffects', 'is not known', 'use read, write or send')]
  const found: Finding[] = []
  if (spec.connection !== null && (typeof spec.connection !== 'string' || spec.connection.trim() === '')) {
    found.push(finding('connection', 'is empty', 'name a provider key, or leave it out'))
  }
  if (spec.sideEffects === 'send' && spec.connection === null) {
    found.push(finding('connection', 'a send tool declares none', 'name the provider whose account sends'))
  }
  if (!['none', 'safe'].includes(spec.retry)) found.push(finding('retry', 'is not known', 'use none or safe'))
  if (!['reclaim', 'ask'].includes(spec.onUnknown))
    found.push(finding('onUnknown', 'is not known', 'use reclaim or ask'))
  return [...found, ...(spec.sideEffects === 'read' ? checkRead(spec) : checkEffect(spec))]
}

function checkRead(spec: Spec): Finding[] {
  const found: Finding[] = []
  if (spec.repeatable !== null) found.push(finding('repeatable', 'is meaningless on a read', 'leave it out'))
  if (spec.downstreamKey) found.push(finding('downstreamKey', 'a read has no idempotency key', 'leave it out'))
  if (spec.onUnknown === 'ask') found.push(finding('onUnknown', 'a read claims nothing', 'leave it out'))
  return found
}

function checkEffect(spec: Spec): Finding[] {
  const found: Finding[] = []
  if (spec.repeatable === null) {
    found.push(finding('repeatable', `a ${spec.sideEffects} tool does not say`, 'declare repeatable: false'))
  } else if (spec.repeatable) {
    const remedy = 'declare repeatable: false, and give the tool an argument that tells two wanted calls apart'
    found.push(finding('repeatable', 'true is refused: one run executes equal arguments once', remedy))
  }
  if (spec.retry === 'safe') {
    found.push(
      finding(
        'retry',
        'safe is for reads',
        'leave it out; the engine retries the run, and the claim keeps the effect single',
      ),
    )
  }
  return found
}

/** The one way not to be counted in the call itself, so it is open to nothing else. */
function checkSettling({ spec, settles }: ToolDeclaration): Finding[] {
  if (settles === undefined) return []
  const fits = settles === 'later' && spec.kind === 'vendor' && spec.sideEffects === 'write' && spec.metered
  const remedy = 'leave it out; a call that is charged when it answers records what it cost itself'
  return fits ? [] : [finding('settles', 'is for metered writes to a vendor that submit a job', remedy)]
}

function checkLimits(spec: Spec): Finding[] {
  const found = (['maxBatchSize', 'maxResults', 'maxOutputBytes'] as const).flatMap((field) => {
    const limit = spec[field]
    return limit === null || (Number.isSafeInteger(limit) && limit > 0)
      ? []
      : [finding(field, 'is not a positive whole number', 'use 1 or more, or leave it out')]
  })
  if (!(spec.timeoutS > 0 && spec.timeoutS <= STEP_BUDGET_S)) {
    found.push(
      finding(
        'timeoutS',
        `is not inside the step budget of ${STEP_BUDGET_S} s`,
        'submit longer work as a job and collect it',
      ),
    )
  }
  const bytes = spec.maxOutputBytes
  if (bytes !== null && bytes > 0 && bytes < MIN_OUTPUT_BYTES) {
    found.push(finding('maxOutputBytes', 'no answer fits into it', `use at least ${MIN_OUTPUT_BYTES}`))
  }
  if (bytes !== null && bytes > PLATFORM_OUTPUT_BYTES) {
    found.push(
      finding('maxOutputBytes', `is above the platform limit of ${PLATFORM_OUTPUT_BYTES}`, 'lower it, or leave it out'),
    )
  }
  return found
}

function checkBatch({ batchArgument, maxBatchSize, inputSchema }: Spec): Finding[] {
  if ((batchArgument === null) !== (maxBatchSize === null)) {
    const missing = batchArgument === null ? 'batchArgument' : 'maxBatchSize'
    return [finding(missing, 'is missing: the two appear together', 'declare both, or neither')]
  }
  if (batchArgument === null) return []
  const properties = own(inputSchema, 'properties')
  const argument = isJsonObject(properties) ? own(properties, batchArgument) : undefined
  if (argument !== undefined && isArraySchema(argument, inputSchema)) return []
  return [
    finding('batchArgument', 'does not name a top-level array of the input', 'name an argument declared as an array'),
  ]
}

function checkResults({ maxResults, itemKind, outputSchema }: Spec): Finding[] {
  const found: Finding[] = []
  if (maxResults !== null && !isArraySchema(outputSchema, outputSchema)) {
    found.push(
      finding('maxResults', 'the output is not an array', 'declare the output as an array, or leave maxResults out'),
    )
  }
  if (itemKind !== null && !/^[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62})?$/.test(itemKind)) {
    found.push(finding('itemKind', 'is not a resource kind', 'use domain.noun, such as crm.person'))
  }
  return found
}

/** Whether a schema is an array, looking through local references only: anything looser is not a countable batch. */
function isArraySchema(schema: JsonValue, root: JsonObject): boolean {
  let node: JsonValue | undefined = schema
  for (let hops = 0; isJsonObject(node) && hops < 8; hops++) {
    if (own(node, 'type') === 'array') return true
    const ref: JsonValue | undefined = own(node, '$ref')
    node = typeof ref === 'string' ? resolveLocalRef(root, ref) : undefined
  }
  return false
}

function checkFacts({ policyFacts }: Spec, facts: ReadonlyMap<string, FactResolver>): Finding[] {
  const repeated = policyFacts.filter((fact, index) => policyFacts.indexOf(fact) !== index)
  return [
    ...repeated.map((fact) => finding('policyFacts', `names ${fact} twice`, 'name it once')),
    ...policyFacts.flatMap((fact) => {
      if (isReserved(fact))
        return [finding('policyFacts', `${fact} is what every rule already reads`, 'rename the fact')]
      return facts.has(fact)
        ? []
        : [finding('policyFacts', `no resolver is registered for ${fact}`, 'register one, or remove the name')]
    }),
  ]
}

const FACT_TYPES: ReadonlySet<FactType> = new Set(['bool', 'string', 'int', 'double', 'list', 'map'])

/** Faults of the fact resolvers themselves; reported under the fact's name. */
export function checkResolvers(resolvers: readonly FactResolver[]): RegistryFault[] {
  return resolvers.flatMap((resolver, index) => {
    const found: Finding[] = []
    const problem = factNameProblem(resolver.name)
    if (problem !== null) found.push(finding('name', `is not a name a rule can read: ${problem}`, 'rename the fact'))
    if (!FACT_TYPES.has(resolver.type))
      found.push(finding('type', 'is not known', 'use bool, string, int, double, list or map'))
    if (typeof resolver.resolve !== 'function')
      found.push(finding('resolve', 'is not a function', 'give the fact a resolve()'))
    if (resolvers.findIndex(({ name }) => name === resolver.name) !== index)
      found.push(finding('name', 'is registered twice', 'keep one'))
    return found.map((item) => ({ tool: `fact ${resolver.name}`, ...item }))
  })
}

/** Faults between declarations: one name, one model name, one handler key, each once. */
export function checkUniqueness(specs: readonly Spec[]): RegistryFault[] {
  const distinct = [...new Map(specs.toReversed().map((spec) => [spec.name, spec])).values()].toReversed()
  return [
    ...clashes(
      specs,
      ({ name }) => name,
      () => finding('name', 'is declared twice', 'rename or remove one; nothing is shadowed'),
    ),
    ...clashes(
      distinct,
      ({ name }) => modelToolName(name),
      (key, other) => finding('name', `would reach the model as ${key}, as ${other} does`, 'rename one of the two'),
    ),
    ...clashes(distinct, handlerKeyOf, (key, other) =>
      finding('handlerKey', `${key} is taken by ${other}`, 'give each handler a key of its own'),
    ),
  ]
}

function clashes(
  specs: readonly Spec[],
  keyOf: (spec: Spec) => string | null,
  say: (key: string, other: string) => Finding,
): RegistryFault[] {
  const first = new Map<string, string>()
  return specs.flatMap((spec) => {
    const key = keyOf(spec)
    if (key === null) return []
    const other = first.get(key)
    if (other !== undefined) return [{ tool: spec.name, ...say(key, other) }]
    first.set(key, spec.name)
    return []
  })
}

function handlerKeyOf({ binding }: Spec): string | null {
  return 'handlerKey' in binding ? binding.handlerKey : null
}

function finding(field: string, message: string, remedy: string): Finding {
  return { field, message, remedy }
}
