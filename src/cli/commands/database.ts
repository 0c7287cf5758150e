import { serverLogger } from '../../server/logger.ts'
import { openDatabase } from '../../server/open-database.ts'
import { heldReason } from '../../server/restore-watch.ts'
import { readSettings } from '../../server/settings.ts'
import type { Database } from '../../storage/database.ts'
import { holdOpenRuns, inInstallation } from '../../storage/installation-store.ts'
import { deleteOrganization as deleteRows } from '../../storage/organization-deletion.ts'
import { organizationStore } from '../../storage/organization-store.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { counted } from '../text.ts'

/* Commands that work on the database itself. An embedded one has one owner: its server has to be stopped. */

/** Removes everything an organization has. The slug is written twice, since nothing brings it back. */
export async function deleteOrganization(
  context: Context,
  slug: string,
  { confirm }: { readonly confirm: string },
): Promise<void> {
  if (confirm !== slug)
    throw new CommandFailed(
      EXIT.usage,
      `--confirm says ${JSON.stringify(confirm)} and not ${JSON.stringify(slug)}`,
      'write the slug twice; bailiff export keeps a copy of what goes',
    )
  await onDatabase(context, async (database) => {
    const organization = await organizationStore(database).bySlug(slug)
    if (organization === null)
      throw new CommandFailed(EXIT.notFound, `there is no organization ${JSON.stringify(slug)}`)
    const outcome = await deleteRows(database, organization.id)
    if (outcome.kind === 'missing') throw new CommandFailed(EXIT.notFound, 'somebody else has just deleted it')
    if (outcome.kind === 'open_runs')
      throw new CommandFailed(
        EXIT.refused,
        `${counted(outcome.count, 'run')} of it ${outcome.count === 1 ? 'has' : 'have'} not ended`,
        'cancel them (bailiff runs cancel <id>) and wait until they have ended',
      )
    context.answer({ slug, rows: outcome.rows }, () => {
      const total = Object.values(outcome.rows).reduce((sum, count) => sum + count, 0)
      return `${slug} is gone, with ${counted(total, 'row')}`
    })
  })
}

/** After a backup was put back in a way that no server can notice: the same as a server does that notices. */
export async function holdAfterRestore(context: Context, { reason }: { readonly reason: string }): Promise<void> {
  await onDatabase(context, async (database) => {
    const held = await inInstallation(database, (tx) => holdOpenRuns(tx, heldReason(reason)))
    context.answer({ held }, () =>
      held === 0
        ? 'there is no run to hold: all have ended, or are held already'
        : `${counted(held, 'run')} held; bailiff dead-letters --kind run_held shows them, bailiff runs release lets them go on`,
    )
  })
}

async function onDatabase(context: Context, work: (database: Database) => Promise<void>): Promise<void> {
  const { database } = await openDatabase(readSettings(context.environment), serverLogger('warn'))
  try {
    await work(database)
  } finally {
    await database.close()
  }
}
