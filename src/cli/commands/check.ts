import { createCore } from '../../core.ts'
import type { AppParts } from '../../server/config.ts'
import { checkRules } from '../../server/deployment.ts'
import { withConfig } from '../config-parts.ts'
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
  })
}

function checkDefinitions(known: readonly string[], { definitions = [] }: AppParts): void {
  const faults = definitions.flatMap(({ slug, tools }) =>
    tools
      .filter((tool) => !known.includes(tool))
      .map((tool) => `definition ${slug} names the tool ${tool}, which does not exist`),
  )
  if (faults.length > 0) throw new CommandFailed(EXIT.failed, faults.join('\n'), `tools are ${known.join(', ')}`)
}
