import { createCore } from '../../core.ts'
import type { AppParts } from '../../server/config.ts'
import { checkRules } from '../../server/deployment.ts'
import { withConfig } from '../config-parts.ts'
import { definitionFaults } from '../../server/known-definitions.ts'
import type { ToolRegistry } from '../../tools/registry.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { counted } from '../text.ts'

/** Builds everything the config declares, on a database in memory, and says what is wrong with it. Needs no server. */
export async function checkTools(context: Context, options: { readonly config?: string }): Promise<void> {
  const { environment } = context
  await withConfig({ config: options.config, environment }, async ({ path, parts, database }) => {
    const core = await createCore({
      database,
      tools: parts.tools,
      ...(parts.facts === undefined ? {} : { facts: parts.facts }),
      ...(parts.providers === undefined ? {} : { providers: parts.providers }),
    })
    checkRules(core, parts.rules ?? [])
    checkDefinitions(core.registry, parts)
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
  })
}

function checkDefinitions(registry: ToolRegistry, { definitions = [] }: AppParts): void {
  const faults = definitionFaults(definitions, registry)
  if (faults.length > 0)
    throw new CommandFailed(EXIT.failed, faults.join('\n'), `tools are ${registry.names().join(', ')}`)
}
