import type { Core } from '../core.ts'
import type { Runtime } from '../runtime.ts'
import type { RunRow } from '../runs/run-store.ts'
import type { IdentityStore } from '../storage/identity-store.ts'
import type { Actor } from '../tools/invocation.ts'
import type { AppParts } from './config.ts'

/** What a first start hands to the person in front of it, once. */
export interface Welcome {
  /** Signs the owner in, once. */
  readonly token: string
  /** Null when the organization had an owner already. */
  readonly apiKey: string | null
}

/** Long enough to find the line again after a break; a restart prints a new one. */
const SIGN_IN_TTL_S = 12 * 3600

const FIRST_START: Actor = { kind: 'system', id: 'first-start', name: 'first start' }
const OWNER = { email: 'owner@localhost', name: 'Owner' }

export async function welcome(identities: IdentityStore, organizationId: string): Promise<Welcome> {
  await identities.removeExpired()
  const { user, created } = await identities.ensureOwner({ organizationId, ...OWNER })
  const key = created ? await identities.createApiKey({ organizationId, kind: 'admin', name: 'first key' }) : null
  const token = await identities.createSignInToken({ organizationId, userId: user.id, ttlS: SIGN_IN_TTL_S })
  return { token, apiKey: key?.secret ?? null }
}

/** The run a demo shows at its first start. */
export async function startFirstRun(
  runtime: Runtime,
  organizationId: string,
  firstRun: NonNullable<AppParts['firstRun']>,
): Promise<RunRow> {
  return runtime.runs.start({ organizationId, ...firstRun, startedBy: FIRST_START, source: 'demo' })
}

/** The run as it stands when it has parked or ended, or after `timeoutMs`. */
export async function settled(core: Core, run: RunRow, timeoutMs: number): Promise<RunRow> {
  const { promise: changed, resolve } = Promise.withResolvers<void>()
  let latest = run
  const look = async (): Promise<void> => {
    latest = (await core.stores.runs.get(run.organizationId, run.id)) ?? latest
    if (latest.status !== 'queued' && latest.status !== 'running') resolve()
  }
  const unsubscribe = core.live.subscribe(run.id, () => void look().catch(() => resolve()))
  const timer = setTimeout(resolve, timeoutMs)
  try {
    await look()
    await changed
    return latest
  } finally {
    unsubscribe()
    clearTimeout(timer)
  }
}
