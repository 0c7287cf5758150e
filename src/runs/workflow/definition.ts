import { z } from 'zod'
import type { RunCeilings } from '../../tools/invocation.ts'
import type { JsonObject, JsonValue } from '../../tools/json.ts'

/**
 * JSON in which every `{ "$expr": "<CEL>" }` stands for the value of that expression. An expression reads `input`,
 * `steps.<id>.ok`, `steps.<id>.output`, `steps.<id>.error`, and inside a map its item and `index`.
 */
export type Template = JsonValue

interface Shared {
  /** `^[a-z][a-z0-9_]{0,47}$`, unique in the workflow; with the run, the identity of the node's effects. */
  readonly id: string
  /** The workflow goes on when the node fails, and ends `partial`. */
  readonly continueOnError?: boolean
}

export interface ToolNode extends Shared {
  readonly kind: 'tool'
  /** Platform name. */
  readonly tool: string
  readonly args: Template
}

/** A run of its own, of a published agent or workflow. Its output is the node's. */
export interface AgentNode extends Shared {
  readonly kind: 'agent'
  /** Slug. */
  readonly definition: string
  readonly input: Template
}

/** Exactly one of the four. */
export interface WaitNode extends Shared {
  readonly kind: 'wait'
  /** An instant: an ISO 8601 text with a time zone. */
  readonly until?: Template
  /** Seconds. */
  readonly forS?: Template
  /** Answers `{ received, payload }`; `received` is false when nobody sent it in time. */
  readonly signal?: { readonly name: string; readonly timeoutS: number }
  /**
   * The `jobId` that a submit answered. Answers `{ ended, state }`: `completed`, `failed` or `cancelled`, or `running` when
   * the time was over first. What the job found is read with the provider's collect tool.
   */
  readonly providerJob?: { readonly jobId: Template; readonly timeoutS: number }
}

/** Answers what its last node answers. */
export interface SequenceNode extends Shared {
  readonly kind: 'sequence'
  readonly nodes: readonly WorkflowNode[]
}

/** Answers a list, one place for each branch. Every branch runs to its own end, whatever becomes of the others. */
export interface ParallelNode extends Shared {
  readonly kind: 'parallel'
  readonly branches: readonly WorkflowNode[]
}

/** Answers what the side that was taken answers, or null. */
export interface BranchNode extends Shared {
  readonly kind: 'branch'
  /** CEL that answers true or false. */
  readonly when: string
  readonly yes: WorkflowNode
  readonly no?: WorkflowNode
}

/** Answers a list, one place for each item; null where the item failed. */
export interface MapNode extends Shared {
  readonly kind: 'map'
  /** CEL that answers a list. */
  readonly over: string
  /** Name of the item in the expressions of `node`. */
  readonly as: string
  readonly node: WorkflowNode
  /** Items that are worked on at the same time. */
  readonly fanoutConcurrency: number
  /** A longer list fails the node before its first item. */
  readonly maxItems: number
}

/** The workflow is over, with what it has done. Nothing behind it runs. */
export interface EndNode extends Shared {
  readonly kind: 'end'
  /** Makes the run end `partial`, under this reason. */
  readonly reason?: string
}

export type WorkflowNode =
  | ToolNode
  | AgentNode
  | WaitNode
  | SequenceNode
  | ParallelNode
  | BranchNode
  | MapNode
  | EndNode

/** A published workflow, before publication. Plain JSON. */
export interface WorkflowDefinition {
  readonly kind: 'workflow'
  /** `^[a-z][a-z0-9-]{0,62}$`, unique in the organization among agents and workflows. */
  readonly slug: string
  /** `interactive` unless given. */
  readonly lane?: 'interactive' | 'batch'
  /** JSON Schema of a run's input; absent takes any JSON. */
  readonly inputSchema?: JsonObject
  /** Turns do not apply: a workflow has none. */
  readonly ceilings: RunCeilings
  readonly root: WorkflowNode
  /** The run's output; what `root` answers when absent. */
  readonly output?: Template
}

export const WORKFLOW_LIMITS = {
  nodes: 200,
  depth: 12,
  maxItems: 1_000,
  fanoutConcurrency: 20,
} as const

export const NODE_ID = /^[a-z][a-z0-9_]{0,47}$/
export const SIGNAL_NAME = /^[a-z][a-z0-9_.-]{0,63}$/
export const WORKFLOW_FRAMEWORK = 'workflow'

const Json: z.ZodType<JsonValue> = z.json()
const id = z.string().regex(NODE_ID, 'an id is lower case letters, digits and underscores, and starts with a letter')
const shared = { id, continueOnError: z.boolean().optional() }
const Cel = z.string().min(1)

const Node: z.ZodType<WorkflowNode> = z.lazy(() =>
  z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('tool'), ...shared, tool: z.string().max(130), args: Json }),
    z.strictObject({ kind: z.literal('agent'), ...shared, definition: z.string().max(80), input: Json }),
    z
      .strictObject({
        kind: z.literal('wait'),
        ...shared,
        until: Json.optional(),
        forS: Json.optional(),
        signal: z
          .strictObject({
            name: z.string().regex(SIGNAL_NAME, 'a signal is named with lower case letters, digits, . _ and -'),
            timeoutS: z.number().min(0),
          })
          .optional(),
        providerJob: z.strictObject({ jobId: Json, timeoutS: z.number().min(0) }).optional(),
      })
      .refine(
        ({ until, forS, signal, providerJob }) =>
          [until, forS, signal, providerJob].filter((one) => one !== undefined).length === 1,
        { message: 'a wait has exactly one of until, forS, signal and providerJob' },
      ),
    z.strictObject({ kind: z.literal('sequence'), ...shared, nodes: z.array(Node) }),
    z.strictObject({ kind: z.literal('parallel'), ...shared, branches: z.array(Node) }),
    z.strictObject({ kind: z.literal('branch'), ...shared, when: Cel, yes: Node, no: Node.optional() }),
    z.strictObject({
      kind: z.literal('map'),
      ...shared,
      over: Cel,
      as: z.string(),
      node: Node,
      fanoutConcurrency: z.number(),
      maxItems: z.number(),
    }),
    z.strictObject({
      kind: z.literal('end'),
      ...shared,
      reason: z
        .string()
        .regex(/^[a-z][a-z0-9_]{0,47}$/, 'a reason is lower case letters, digits and underscores')
        .optional(),
    }),
  ]),
) as z.ZodType<WorkflowNode>

/** The shape of a definition that comes from outside; what it means is checked by `validateWorkflow`. */
export const WorkflowSchema = z.strictObject({
  kind: z.literal('workflow'),
  slug: z.string(),
  lane: z.enum(['interactive', 'batch']).optional(),
  inputSchema: z.record(z.string(), Json).optional(),
  ceilings: z.strictObject({
    maxTurns: z.number().min(0),
    maxToolCalls: z.number().min(0),
    maxDurationS: z.number().min(0),
    maxCostCents: z.number().min(0).nullable(),
  }),
  root: Node,
  output: Json.optional(),
})

export function isWorkflow(body: object): body is Omit<WorkflowDefinition, 'slug'> {
  return 'kind' in body && body.kind === 'workflow'
}
