import type { z } from 'zod'
import type { RunJson } from '../../server/json.ts'
import type { DeadLetterSchema } from '../../server/routes/dead-letters.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { cut, fromNow, oneLine, table } from '../text.ts'

export interface DeadLetterOptions {
  readonly kind?: string
  readonly limit: string
  readonly cursor?: string
}

/** Characters of a message; the rest is with the run. */
const MESSAGE = 80

export async function listDeadLetters(context: Context, { kind, limit, cursor }: DeadLetterOptions): Promise<void> {
  const client = await connect(context)
  const query = new URLSearchParams({
    limit,
    ...(kind === undefined ? {} : { kind }),
    ...(cursor === undefined ? {} : { cursor }),
  })
  const page = await client.get<ListAnswer<z.output<typeof DeadLetterSchema>>>(
    `/api/v1/dead-letters?${query.toString()}`,
  )
  context.answer(page, () => {
    if (page.items.length === 0)
      return 'nothing waits for a person here (questions that are still open: bailiff approvals)'
    const rows = page.items.map((letter) => [
      letter.kind,
      letter.runId,
      oneLine(letter.tool ?? letter.definition),
      fromNow(letter.at, Date.now()),
      cut(oneLine(letter.message ?? letter.reason ?? ''), MESSAGE),
    ])
    const more = page.nextCursor === null ? [] : [`more with: --cursor ${page.nextCursor}`]
    return [table([['kind', 'run', 'what', 'since', ''], ...rows]), ...more].join('\n')
  })
}

export async function retryRun(
  context: Context,
  id: string,
  options: { readonly effectsMayRepeat?: boolean },
): Promise<void> {
  const client = await connect(context)
  const run = await client.post<RunJson>(`/api/v1/runs/${encodeURIComponent(id)}/retry`, {
    effectsMayRepeat: options.effectsMayRepeat ?? false,
  })
  context.answer(run, () => `${run.id} is started in place of ${id}; watch it with: bailiff runs show ${run.id}`)
}
