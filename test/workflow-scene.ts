import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import type { RunRow } from '../src/runs/run-store.ts'
import type { StepRow } from '../src/runs/workflow/step.ts'
import type { WorkflowNode } from '../src/runs/workflow/definition.ts'
import type { RunCeilings } from '../src/tools/invocation.ts'
import type { JsonValue } from '../src/tools/json.ts'
import { STARTER, world, type World, type WorldOptions } from './setup/world.ts'

export interface WorkflowScene extends World {
  /** Publishes a workflow under a slug, `flow` unless given. */
  publish(
    root: WorkflowNode,
    more?: { slug?: string; output?: JsonValue; ceilings?: Partial<RunCeilings> },
  ): Promise<void>
  /** Starts a run and works until nothing is left to do now. */
  play(input?: JsonValue, slug?: string): Promise<RunRow>
  /** Works until nothing is left to do now, and reads the run again. */
  goOn(runId: string): Promise<RunRow>
  steps(
    runId: string,
  ): Promise<Readonly<Record<string, Pick<StepRow, 'state' | 'attempt' | 'output' | 'error' | 'wait'>>>>
}

/** The world of the other tests, with everything allowed unless rules say otherwise, and workflows in it. */
export async function workflowScene(options: WorldOptions): Promise<WorkflowScene> {
  const settings = { policyDefaults: { read: 'allow', write: 'allow', send: 'allow' } } as const
  const w = await world({ settings, ...options })
  const { organizationId, runtime, engine } = w
  return {
    ...w,
    async publish(root, { slug = 'flow', output, ceilings = {} } = {}) {
      const definition = { kind: 'workflow' as const, slug, root, ceilings: { ...DEFAULT_CEILINGS, ...ceilings } }
      await runtime.runs.publish(
        organizationId,
        { ...definition, ...(output === undefined ? {} : { output }) },
        STARTER,
      )
    },
    async play(input = null, slug = 'flow') {
      const { id } = await runtime.runs.start({
        organizationId,
        definition: slug,
        input,
        startedBy: STARTER,
        source: 'api',
      })
      await engine.settle()
      return w.run(id)
    },
    async goOn(runId) {
      await engine.settle()
      return w.run(runId)
    },
    async steps(runId) {
      const { rows } = await options.database.query<StepRow>(
        { name: '', text: 'SELECT path, state, attempt, output, error, wait FROM agent.run_steps WHERE run_id = $1' },
        [runId],
      )
      return Object.fromEntries(rows.map(({ path, ...step }) => [path, step]))
    },
  }
}
