import { createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type ApiClient } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'
import { counted, oneLine } from '../text.ts'

export interface EraseOptions {
  readonly email: string
  readonly cancel?: boolean
  readonly yes?: boolean
}

interface ErasureJson {
  readonly id: string
  readonly counts: Readonly<Record<string, number>>
  readonly remains: {
    readonly definitions: readonly string[]
    readonly rules: readonly string[]
    readonly connections: readonly string[]
    readonly member: boolean
  }
}

/** Runs that were cancelled end at their next boundary; this long they are waited for. */
const ENDING_MS = 60_000
const LOOK_MS = 1_000

export async function eraseSubject(context: Context, { email, cancel, yes }: EraseOptions): Promise<void> {
  const client = await connect(context)
  if (yes !== true) {
    if (!context.interactive)
      throw new CommandFailed(EXIT.usage, 'an erasure cannot be taken back', 'add --yes to do it without being asked')
    if (!(await context.confirm(`Erase ${oneLine(email)} from ${client.url}? This cannot be taken back.`))) return
  }
  const erasure = await eraseWhenEnded(context, client, { email, cancelRuns: cancel === true })
  context.answer(erasure, () => erasureText(erasure))
}

/** @throws CommandFailed for what the server refuses; with `cancelRuns`, only after its runs had time to end */
async function eraseWhenEnded(
  context: Context,
  client: ApiClient,
  body: { readonly email: string; readonly cancelRuns: boolean },
): Promise<ErasureJson> {
  const until = Date.now() + ENDING_MS
  for (;;) {
    try {
      return await client.post<ErasureJson>('/api/v1/erasures', body)
    } catch (error) {
      if (!body.cancelRuns || !isWaiting(error) || Date.now() > until) throw error
      context.note('waiting for runs to end')
      await pause(LOOK_MS)
    }
  }
}

/** Refusals for want of a right are none to wait for. */
function isWaiting(error: unknown): boolean {
  return error instanceof CommandFailed && error.exitCode === EXIT.refused && error.message.includes('have not ended')
}

function erasureText({ counts, remains }: ErasureJson): string {
  const rows = Object.entries(counts).filter(([, count]) => count > 0)
  const left = [
    ...remains.definitions.map((slug) => `definition ${oneLine(slug)}`),
    ...remains.rules.map((name) => `rule ${oneLine(name)}`),
    ...remains.connections.map((name) => `connection ${oneLine(name)}`),
    ...(remains.member ? ['a person who signs in here with that address'] : []),
  ]
  return [
    rows.length === 0
      ? 'nothing was held about that address'
      : `erased: ${rows.map(([table, count]) => `${count} in ${table}`).join(', ')}`,
    ...(left.length === 0
      ? []
      : ['the address still stands where a person wrote it:', ...left.map((one) => `  ${one}`)]),
  ].join('\n')
}

/** Written beside the file first: a file of that name is a whole export or none. */
export async function exportOrganization(context: Context, { out }: { readonly out: string }): Promise<void> {
  if (await exists(out)) throw new CommandFailed(EXIT.usage, `${out} is there already`, 'choose another file')
  const client = await connect(context)
  const unfinished = `${out}.part`
  const last = new LastLine()
  try {
    const body = Readable.fromWeb((await client.stream('/api/v1/export')) as Parameters<typeof Readable.fromWeb>[0])
    await pipeline(body, last.follow, createWriteStream(unfinished, { flags: 'wx', mode: 0o600 }))
    const rows = last.rows()
    if (rows === null)
      throw new CommandFailed(EXIT.failed, 'the export ended early', 'see the log of the server, and try again')
    await rename(unfinished, out)
    context.answer({ out, rows }, () => {
      const total = Object.values(rows).reduce((sum, count) => sum + count, 0)
      return `${counted(total, 'row')} of ${counted(Object.keys(rows).length, 'table')} in ${out}`
    })
  } catch (error) {
    if (Reflect.get(Object(error), 'code') === 'EEXIST')
      throw new CommandFailed(EXIT.usage, `${unfinished} is there already`, 'delete it, or choose another file')
    await rm(unfinished, { force: true })
    throw error instanceof CommandFailed
      ? error
      : new CommandFailed(EXIT.failed, `the export ended early: ${String(error)}`)
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}

/** Keeps the end of what flows by: the last line of a whole export says so. */
class LastLine {
  #end = ''

  readonly follow = async function* (this: LastLine, source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const decoder = new TextDecoder()
    for await (const chunk of source) {
      this.#end = (this.#end + decoder.decode(chunk, { stream: true })).slice(-MAX_LAST_LINE)
      yield chunk
    }
  }.bind(this)

  /** Null unless the line is there. */
  rows(): Readonly<Record<string, number>> | null {
    const line = this.#end.trimEnd().split('\n').at(-1) ?? ''
    try {
      const said: unknown = JSON.parse(line)
      if (typeof said !== 'object' || said === null || Reflect.get(said, 'complete') !== true) return null
      return Reflect.get(said, 'rows') as Readonly<Record<string, number>>
    } catch {
      return null
    }
  }
}

/** Characters; the line has a number for each table. */
const MAX_LAST_LINE = 16_384
