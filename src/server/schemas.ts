import { z } from '@hono/zod-openapi'
import { LANES } from '../runs/lane.ts'

/** Shapes of the API, for its checks and its document. */

const Instant = z.iso.datetime().openapi({ example: '2026-05-04T10:02:00.000Z' })
const Id = z.uuid()
const Json = z.unknown()

export const ActorSchema = z
  .object({ kind: z.enum(['user', 'api_key', 'system']), id: z.string(), name: z.string() })
  .openapi('Actor')

export const ProblemSchema = z
  .looseObject({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string(),
    remedy: z.string(),
  })
  .openapi('Problem')

export const PageQuery = z.object({
  cursor: z.uuid('a cursor is the nextCursor of the page before').optional(),
  limit: z.coerce.number().int().min(1).max(200).default(50),
})

export const IdParam = z.object({ id: z.uuid() })

export const ApprovalState = z.enum(['pending', 'approved', 'rejected', 'expired', 'cancelled', 'stale'])

export const ApprovalSchema = z
  .object({
    id: Id,
    state: ApprovalState,
    kind: z.enum(['action', 'outcome']),
    tool: z.string(),
    toolVersion: z.int(),
    /** Null, like preview and facts, for whoever may see that there is a question and not what it is about. */
    arguments: z.record(z.string(), Json).nullable(),
    argumentsHash: z.string(),
    preview: z.string().nullable(),
    rule: z.string().nullable(),
    facts: z.record(z.string(), Json).nullable(),
    hidden: z.boolean(),
    runId: Id,
    spanId: Id,
    requestedAt: Instant,
    expiresAt: Instant,
    decidedAt: Instant.nullable(),
    decidedBy: ActorSchema.nullable(),
    note: z.string().nullable(),
    principal: z.object({ agent: z.string(), startedBy: ActorSchema }),
  })
  .openapi('Approval')

const hash = z.string().regex(/^[0-9a-f]{64}$/, 'argumentsHash is the hex hash shown with the approval')
const note = z.string().max(2_000)

export const ApproveBody = z
  .strictObject({ argumentsHash: hash, note: note.optional(), outcome: z.enum(['arrived', 'send_again']).optional() })
  .openapi('ApproveBody')

export const RejectBody = z
  .strictObject({ argumentsHash: hash, note: note.optional(), stopRun: z.boolean().optional() })
  .openapi('RejectBody')

export const RunStatusSchema = z.enum(['queued', 'running', 'parked', 'completed', 'partial', 'failed', 'cancelled'])

export const Ceilings = z.object({
  maxTurns: z.number().int().min(0),
  maxToolCalls: z.number().int().min(0),
  maxDurationS: z.number().min(0),
  maxCostCents: z.number().min(0).nullable(),
})

export const RunSummarySchema = z
  .object({
    id: Id,
    definition: z.string(),
    status: RunStatusSchema,
    lane: z.enum(LANES),
    heldAt: Instant.nullable().openapi({ description: 'An operator has to release the run' }),
    heldReason: z.string().nullable(),
    reason: z.string().nullable(),
    message: z.string().nullable(),
    source: z.string(),
    retryOf: Id.nullable().openapi({ description: 'The failed run in whose place it was started' }),
    model: z.string(),
    turns: z.int(),
    toolCalls: z.int(),
    startedBy: ActorSchema,
    createdAt: Instant,
    startedAt: Instant.nullable(),
    endedAt: Instant.nullable(),
    deadline: Instant,
    wakeAt: Instant.nullable(),
  })
  .openapi('RunSummary')

export const RunSchema = RunSummarySchema.extend({
  input: Json,
  output: Json,
  ceilings: Ceilings,
  tools: z.array(z.string()),
  costCents: z.number(),
  pendingApprovals: z.int(),
}).openapi('Run')

export const SpanSchema = z
  .object({
    id: Id,
    runId: Id,
    parentId: Id.nullable(),
    kind: z.enum(['run', 'segment', 'llm', 'tool', 'node']),
    name: z.string(),
    status: z.enum(['running', 'ok', 'error']),
    code: z.string().nullable(),
    startedAt: Instant,
    endedAt: Instant.nullable(),
    attributes: z.record(z.string(), Json),
    input: Json,
    output: Json,
    hidden: z.boolean(),
    decision: z
      .object({
        stage: z.int(),
        outcome: z.string(),
        rule: z.string().nullable(),
        message: z.string().nullable(),
        facts: z.record(z.string(), Json),
        shadow: Json,
        approvalId: z.string().nullable(),
      })
      .nullable(),
    approval: z
      .object({
        id: Id,
        state: ApprovalState,
        decidedAt: Instant.nullable(),
        decidedBy: ActorSchema.nullable(),
        note: z.string().nullable(),
      })
      .nullable()
      .openapi({ description: 'The question a held call was filed as, and what became of it' }),
  })
  .openapi('Span')

export const StartRunBody = z
  .strictObject({
    definition: z.string().min(1).max(80),
    input: Json.openapi({ description: 'Any JSON, at most 256 kB; a string reaches the model as it is.' }),
    ceilings: Ceilings.partial().optional(),
    lane: z.enum(LANES).optional().openapi({ description: 'Not above the lane of the definition' }),
  })
  .refine((body) => body.input !== undefined, {
    path: ['input'],
    message: 'input is missing; write null for a run without one',
  })
  .openapi('StartRunBody')

export const ToolSchema = z
  .object({
    name: z.string(),
    modelName: z.string(),
    version: z.int(),
    schemaHash: z.string(),
    description: z.string(),
    kind: z.string(),
    sideEffects: z.enum(['read', 'write', 'send']),
    enabled: z.boolean(),
    connection: z.string().nullable(),
    timeoutS: z.number(),
    metered: z.boolean(),
    policyFacts: z.array(z.string()),
    maxBatchSize: z.int().nullable(),
    onUnknown: z.enum(['reclaim', 'ask']),
    inputSchema: z.record(z.string(), Json),
    outputSchema: z.record(z.string(), Json),
  })
  .openapi('Tool')

export const DefinitionSchema = z
  .object({
    kind: z.enum(['agent', 'workflow']),
    slug: z.string(),
    version: z.int(),
    root: Json.openapi({ description: 'The nodes of a workflow; null for an agent' }),
    instructions: z.string(),
    tools: z.array(z.string()),
    model: z.string().nullable(),
    ceilings: Ceilings,
    lane: z.enum(LANES),
  })
  .openapi('Definition')

export const PublishBody = z
  .strictObject({
    slug: z
      .string()
      .regex(/^[a-z][a-z0-9-]{0,62}$/, 'a slug is lower case letters, digits and hyphens, and starts with a letter'),
    instructions: z.string().min(1).max(100_000),
    tools: z.array(z.string().max(130)).max(128),
    model: z.string().max(200).nullable().default(null),
    ceilings: Ceilings.partial().default({}),
    lane: z.enum(LANES).optional(),
  })
  .openapi('PublishBody')

const RuleLimit = z
  .strictObject({ count: z.int().min(1), per: z.enum(['run', 'hour', 'day']) })
  .openapi({ description: 'Calls that pass before the effect applies' })

export const RuleSchema = z
  .object({
    id: Id,
    name: z.string(),
    tools: z.array(z.string()),
    when: z.string().nullable(),
    effect: z.enum(['allow', 'deny', 'require_approval']),
    mode: z.enum(['enforce', 'shadow']),
    approvers: z.array(z.string()),
    ttlS: z.int().nullable(),
    limit: RuleLimit.nullable(),
  })
  .openapi('Rule')

/** The rule language has a checker of its own with better messages; this is only the outline. */
export const RuleBody = z
  .strictObject({
    name: z.string(),
    tools: z.array(z.string()),
    when: z.string().nullable().default(null),
    effect: z.enum(['allow', 'deny', 'require_approval']),
    mode: z.enum(['enforce', 'shadow']).default('enforce'),
    approvers: z.array(z.string()).default([]),
    ttlS: z.number().nullable().default(null),
    limit: RuleLimit.nullable().default(null),
  })
  .openapi('RuleBody')

export const RuleTestBody = z
  .strictObject({ rule: RuleBody, since: z.iso.datetime().optional(), limit: z.int().min(1).max(5_000).optional() })
  .openapi('RuleTestBody')

const Outcome = z.enum(['allow', 'deny', 'require_approval', 'fault'])

export const RuleTestSchema = z
  .object({
    calls: z.array(
      z.object({
        spanId: Id,
        runId: Id,
        tool: z.string(),
        decidedAt: Instant,
        decided: z.object({ outcome: Outcome, rule: z.string().nullable() }),
        now: z.union([
          z.object({ outcome: Outcome, rule: z.string().nullable() }),
          z.object({ outcome: z.literal('unknown'), why: z.string() }),
        ]),
      }),
    ),
    summary: z.object({
      calls: z.int(),
      unchanged: z.int(),
      unknown: z.int(),
      changed: z.array(z.object({ from: Outcome, to: Outcome, calls: z.int() })),
    }),
  })
  .openapi('RuleTest')

export const KeySchema = z
  .object({
    id: Id,
    kind: z.enum(['run', 'approve', 'admin']),
    name: z.string(),
    createdAt: Instant,
    revokedAt: Instant.nullable(),
  })
  .openapi('ApiKey')

export const NewKeySchema = KeySchema.extend({ secret: z.string() }).openapi('NewApiKey')

export const KeyBody = z
  .strictObject({ kind: z.enum(['run', 'approve', 'admin']), name: z.string().trim().min(1).max(80) })
  .openapi('ApiKeyBody')

export const GrantSchema = z
  .object({ definition: z.string(), tool: z.string(), grantedAt: Instant, revokedAt: Instant.nullable() })
  .openapi('Grant')

export const GrantBody = z
  .strictObject({ definition: z.string().min(1).max(80), tool: z.string().min(1).max(130) })
  .openapi('GrantBody')

export const UsageSchema = z
  .object({
    day: z.iso.date(),
    kind: z.enum(['model', 'tool']),
    provider: z.string(),
    item: z.string(),
    count: z.int(),
    inputTokens: z.number(),
    outputTokens: z.number(),
    costCents: z.number(),
  })
  .openapi('Usage')

export const SessionBody = z
  .union([
    z.strictObject({ token: z.string().min(1).max(200) }),
    z.strictObject({ apiKey: z.string().min(1).max(200) }),
  ])
  .openapi('SessionBody')

export const SessionSchema = z
  .object({
    actor: ActorSchema,
    kind: z.enum(['run', 'approve', 'admin', 'view']),
    roles: z.array(z.string()),
    organization: z.object({ slug: z.string(), name: z.string(), selfApproval: z.boolean() }),
    server: z.object({ model: z.string(), scripted: z.boolean(), database: z.enum(['pglite', 'postgres']) }),
  })
  .openapi('Session')

/** A whole list on one page. */
export function listOf<Item extends z.ZodType>(item: Item) {
  return z.object({ items: z.array(item), nextCursor: z.string().nullable() })
}
