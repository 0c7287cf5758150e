import { createCore } from '../../core.ts'
import { findConfig, loadConfig, type AppParts } from '../../server/config.ts'
import { checkRules } from '../../server/deployment.ts'
import { serverLogger } from '../../server/logger.ts'
import { pgliteDatabase } from '../../storage/pglite/index.ts'
import { migrate } from '../../storage/migrate.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { counted } from '../text.ts'

/** Builds everything the config declares, on a database in memory, and says what is wrong with it. Needs no server. */
export async function checkTools(context: Context, options: { readonly config?: string }): Promise<void> {
  const path = options.config ?? (await findConfig(process.cwd()))
  const config = await loadConfig(path)
  const dataDir = await mkdtemp(join(tmpdir(), 'bailiff-check-'))
  const database = await pgliteDatabase({ maintenanceMs: 0 })
  try {
    await migrate(database)
    const parts = await config.setup({
      database,
      dataDir,
      logger: serverLogger('warn'),
      scopedDb: (organizationId) => scopedDb(database, organizationId),
    })
    try {
      const core = await createCore({
        database,
        tools: parts.tools,
        ...(parts.facts === undefined ? {} : { facts: parts.facts }),
      })
      checkRules(core, parts.rules ?? [])
      checkDefinitions(core.registry.names(), parts)
      const counts = {
        tools: parts.tools.length,
        rules: parts.rules?.length ?? 0,
        definitions: parts.definitions?.length ?? 0,
      }
      context.answer(
        { ok: true, config: path, ...counts },
        () =>
          `ok: ${counted(counts.tools, 'tool')}, ${counted(counts.rules, 'rule')}, ${counted(counts.definitions, 'definition')}`,
      )
    } finally {
      await parts.close?.()
    }
  } finally {
    await database.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}

function checkDefinitions(known: readonly string[], { definitions = [] }: AppParts): void {
  const faults = definitions.flatMap(({ slug, tools }) =>
    tools
      .filter((tool) => !known.includes(tool))
      .map((tool) => `definition ${slug} names the tool ${tool}, which does not exist`),
  )
  if (faults.length > 0) throw new CommandFailed(EXIT.failed, faults.join('\n'), `tools are ${known.join(', ')}`)
}
