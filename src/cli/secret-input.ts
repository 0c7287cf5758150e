import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import { CommandFailed, EXIT } from './exit-codes.ts'

/** What a provider takes, as the server says. */
export interface SecretField {
  readonly name: string
  readonly title: string
  readonly optional: boolean
}

export interface SecretStreams {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean }
  /** Where questions go. Nothing that is typed does. */
  readonly prompts: NodeJS.WritableStream
}

const MAX_BYTES = 256 * 1024

/**
 * Asks for each field without showing what is typed; where input is piped in, reads it whole: the value alone for a
 * provider with one field, else a JSON object of them. Secrets never come from arguments, which every process can read.
 *
 * @throws CommandFailed never repeats what was read
 */
export async function readSecrets(
  fields: readonly SecretField[],
  streams: SecretStreams,
): Promise<Readonly<Record<string, string>>> {
  if (streams.input.isTTY !== true) return parsePiped(fields, await readAll(streams.input))
  const secrets: Record<string, string> = {}
  for (const { name, title, optional } of fields) {
    const value = await askHidden(`${title}${optional ? ' (leave empty for none)' : ''}: `, streams)
    if (value !== '') secrets[name] = value
  }
  return secrets
}

async function askHidden(question: string, { input, prompts }: SecretStreams): Promise<string> {
  // The line editor echoes to its output, so it gets one that keeps nothing.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
  const stopped = new AbortController()
  const lines = createInterface({ input, output: nowhere, terminal: true, historySize: 0 })
  lines.on('SIGINT', () => stopped.abort())
  lines.on('close', () => stopped.abort())
  prompts.write(question)
  try {
    return await lines.question('', { signal: stopped.signal })
  } catch {
    throw new CommandFailed(EXIT.failed, 'stopped; nothing was connected')
  } finally {
    lines.close()
    prompts.write('\n')
  }
}

async function readAll(input: NodeJS.ReadableStream): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of input) {
    const part = Buffer.from(chunk)
    bytes += part.length
    if (bytes > MAX_BYTES) throw new CommandFailed(EXIT.usage, 'more was piped in than any secret has')
    chunks.push(part)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function parsePiped(fields: readonly SecretField[], text: string): Readonly<Record<string, string>> {
  const [first, ...others] = fields
  // A file or `echo` ends with a line break that is no part of the secret.
  if (first !== undefined && others.length === 0) return { [first.name]: text.replace(/\r?\n$/, '') }
  const names = fields.map(({ name }) => name).join(', ')
  const refused = new CommandFailed(
    EXIT.usage,
    'what was piped in is not a JSON object of texts',
    `pipe in an object with ${names}, or run the command in a terminal to be asked`,
  )
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    // The parser's own message quotes what it read.
    throw refused
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw refused
  const entries = Object.entries(value)
  if (!entries.every((entry): entry is [string, string] => typeof entry[1] === 'string')) throw refused
  return Object.fromEntries(entries)
}
