import type { Core } from '../core.ts'
import { validateRule, type RuleDraft, type StoredRule } from '../policy/rule.ts'
import { retentionOf } from '../runs/retention.ts'
import type { Runtime } from '../runtime.ts'
import { connectionStore } from '../storage/connection-store.ts'
import type { Organization } from '../storage/organization-store.ts'
import { ValidationError } from '../tools/errors.ts'
import type { Actor } from '../tools/invocation.ts'
import type { AppParts, ConnectionSeed, OrganizationSeed } from './config.ts'
import { inPublishingOrder } from './known-definitions.ts'

/** Who wrote what comes out of the config file. */
export const CONFIG_ACTOR: Actor = { kind: 'system', id: 'config', name: 'config' }

const DEFAULT_ORGANIZATION: OrganizationSeed = { slug: 'default', name: 'Default' }
const SLUG = /^[a-z][a-z0-9-]{0,62}$/

/** Settings the config names win at every start; what it leaves out stays as a person set it. */
export async function deployOrganization(
  core: Core,
  seed: OrganizationSeed = DEFAULT_ORGANIZATION,
): Promise<Organization> {
  if (!SLUG.test(seed.slug))
    throw new ValidationError(
      `the organization's slug is lower case letters, digits and hyphens; got ${JSON.stringify(seed.slug)}`,
    )
  retentionOf(seed.settings?.retention ?? {})
  const { organizations } = core.stores
  const stored = await organizations.ensure({ id: core.newId(), ...seed })
  const wanted = Object.entries(seed.settings ?? {}).filter(([, value]) => value !== undefined)
  const changed = wanted.some(
    ([key, value]) => JSON.stringify(Reflect.get(stored.settings, key)) !== JSON.stringify(value),
  )
  return changed ? organizations.configure(stored.id, Object.fromEntries(wanted)) : stored
}

/** Rules, connections and definitions of the config, in the order in which a run needs them. */
export async function deployParts(
  core: Core,
  runtime: Runtime,
  deployment: { readonly organizationId: string; readonly parts: AppParts },
): Promise<void> {
  const { organizationId, parts } = deployment
  const rules = checkRules(core, parts.rules ?? [])
  await core.stores.rules.sync({ organizationId, by: CONFIG_ACTOR, rules })
  await deployConnections(core, organizationId, parts.connections ?? [])
  for (const definition of inPublishingOrder(parts.definitions ?? []))
    await runtime.runs.publish(organizationId, definition, CONFIG_ACTOR)
}

/** @throws ValidationError names every fault of every rule */
export function checkRules(
  core: Pick<Core, 'catalogue' | 'newId'>,
  drafts: readonly RuleDraft[],
): readonly StoredRule[] {
  const checked = drafts.map((draft) => ({ draft, verdict: validateRule(draft, core.catalogue) }))
  const twice = drafts.filter((draft, index) => drafts.findIndex((other) => other.name === draft.name) !== index)
  const faults = [
    ...checked.flatMap(({ draft, verdict }) =>
      verdict.kind === 'valid'
        ? []
        : verdict.problems.map((problem) => `rule ${JSON.stringify(draft.name)}, ${problem.field}: ${problem.message}`),
    ),
    ...twice.map((draft) => `rule ${JSON.stringify(draft.name)}: two rules have this name`),
  ]
  if (faults.length > 0) throw new ValidationError(faults.join('\n'))
  return checked.flatMap(({ verdict }) => (verdict.kind === 'valid' ? [{ ...verdict.rule, id: core.newId() }] : []))
}

async function deployConnections(core: Core, organizationId: string, seeds: readonly ConnectionSeed[]): Promise<void> {
  const connections = connectionStore(core.database)
  for (const seed of seeds) await connections.ensure({ organizationId, ...seed })
}
