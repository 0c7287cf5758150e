import { randomUUID } from 'node:crypto'
import { DEFAULT_CEILINGS } from '../src/runs/definition.ts'
import { type BeginRules, type Lane } from '../src/runs/lane.ts'
import { SegmentLost, type RunRow, type RunStore, type Segment } from '../src/runs/run-store.ts'
import type { Database } from '../src/storage/database.ts'
import { runStore } from '../src/storage/run-store.ts'
import type { Actor } from '../src/tools/invocation.ts'

export const LIMITS = { interactive: 2, batch: 1 } as const
export const RULES: BeginRules = { staleS: 30, lanes: LIMITS }

export const OPERATOR: Actor = { kind: 'user', id: '00000000-0000-4000-8000-00000000000c', name: 'Cleo' }

export interface LaneScene {
  readonly organizationId: string
  readonly store: RunStore
  create(lane?: Lane, createdAt?: Date): Promise<RunRow>
  /** Begins the run now, or answers null where it may not. */
  begin(runId: string, store?: RunStore): Promise<Segment | null>
}

/** An organization with a definition and nothing else, for runs that are moved by hand. */
export async function laneScene(database: Database, organizationId: string = randomUUID()): Promise<LaneScene> {
  const definitionId = randomUUID()
  const { kysely } = database
  await kysely
    .insertInto('agent.organizations')
    .values({ id: organizationId, slug: `lanes-${organizationId.slice(0, 8)}`, name: 'Lanes' })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  await kysely
    .insertInto('agent.definitions')
    .values({
      id: definitionId,
      organization_id: organizationId,
      slug: 'by-hand',
      version: 1,
      body: '{}',
      body_hash: Buffer.alloc(32),
    })
    .execute()
  const store = runStore(database)
  return {
    organizationId,
    store,
    async create(lane = 'interactive', createdAt) {
      const run = await store.create({
        id: randomUUID(),
        organizationId,
        kind: 'agent',
        definitionId,
        definition: 'by-hand',
        source: 'api',
        lane,
        input: 'go',
        snapshot: {
          contracts: {},
          principal: { agent: 'by-hand', userId: null, roles: [], scopes: [], startedBy: OPERATOR },
          ceilings: DEFAULT_CEILINGS,
          instructions: '',
          model: 'none',
          framework: 'none',
        },
        deadline: new Date(Date.now() + 3_600_000),
      })
      if (createdAt !== undefined)
        await kysely.updateTable('agent.runs').set({ created_at: createdAt }).where('id', '=', run.id).execute()
      return run
    },
    async begin(runId, by = store) {
      const begun = await by.begin(runId, randomUUID(), RULES)
      return begun.kind === 'begun' ? begun.segment : null
    },
  }
}

/** As if the segment's process had been silent for an hour. */
export async function silence(database: Database, { id, run }: Segment): Promise<void> {
  await database.execute(`
    UPDATE agent.runs SET begun_at = begun_at - interval '1 hour' WHERE id = '${run.id}' AND segment_id = '${id}';
    UPDATE agent.run_heartbeats SET beat_at = beat_at - interval '1 hour' WHERE run_id = '${run.id}' AND segment_id = '${id}'`)
}

/** What a write of the segment comes to: false when another one owns the run. */
export async function owns(work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work()
    return true
  } catch (error) {
    if (error instanceof SegmentLost) return false
    throw error
  }
}
