import { readServerFile, serverFilePath, type ServerFile } from '../server/server-file.ts'
import { readSettings } from '../server/settings.ts'
import type { Context } from './context.ts'
import { CommandFailed, EXIT, type ExitCode } from './exit-codes.ts'
import { oneLine } from './text.ts'

/** The API of a running server, with failures turned into exits. */
export interface ApiClient {
  readonly url: string
  get<T>(path: string): Promise<T>
  post<T>(path: string, body?: object): Promise<T>
  put<T>(path: string, body: object): Promise<T>
  delete<T>(path: string): Promise<T>
  /** A response whose body is read as it comes. */
  stream(path: string): Promise<ReadableStream<Uint8Array>>
}

export interface ListAnswer<T> {
  readonly items: readonly T[]
  readonly nextCursor: string | null
}

interface Problem {
  readonly detail?: unknown
  readonly remedy?: unknown
  readonly code?: unknown
}

/** Finds the server: the one named with `--url`, else the one that runs on the data folder. */
export async function connect(context: Context): Promise<ApiClient> {
  const { url, apiKey } = await serverOf(context)
  return new HttpClient(url.replace(/\/+$/, ''), apiKey)
}

async function serverOf(context: Context): Promise<{ readonly url: string; readonly apiKey: string }> {
  const ownKey = context.environment['BAILIFF_API_KEY']?.trim() ?? ''
  if (context.url !== null) {
    if (!/^https?:\/\//.test(context.url))
      throw new CommandFailed(
        EXIT.usage,
        `--url ${JSON.stringify(context.url)} is no web address`,
        'write it as http://127.0.0.1:4400',
      )
    if (ownKey === '')
      throw new CommandFailed(
        EXIT.usage,
        'a server named with --url needs a key',
        'set BAILIFF_API_KEY to an API key of that server (bk_…)',
      )
    return { url: context.url, apiKey: ownKey }
  }
  const { dataDir } = readSettings(context.environment)
  const file = await readServerFile(dataDir)
  if (file === null)
    throw noServer(`no Bailiff server runs on the data folder ${dataDir} (there is no ${serverFilePath(dataDir)})`)
  return { url: file.url, apiKey: ownKey === '' ? file.apiKey : ownKey }
}

/** The server of a data folder, if it answers. */
export async function runningServer(dataDir: string): Promise<ServerFile | null> {
  const file = await readServerFile(dataDir)
  if (file === null) return null
  try {
    await fetch(`${file.url}/healthz`)
    return file
  } catch {
    return null
  }
}

function noServer(message: string): CommandFailed {
  return new CommandFailed(
    EXIT.noServer,
    message,
    'start one with: bailiff start; or name one with --url and BAILIFF_API_KEY',
  )
}

class HttpClient implements ApiClient {
  readonly url: string
  readonly #apiKey: string

  constructor(url: string, apiKey: string) {
    this.url = url
    this.#apiKey = apiKey
  }

  async get<T>(path: string): Promise<T> {
    return (await this.#request(path, { method: 'GET' })).json() as Promise<T>
  }

  async post<T>(path: string, body?: object): Promise<T> {
    const init = body === undefined ? { method: 'POST' } : withJson('POST', body)
    return (await this.#request(path, init)).json() as Promise<T>
  }

  async put<T>(path: string, body: object): Promise<T> {
    return (await this.#request(path, withJson('PUT', body))).json() as Promise<T>
  }

  async delete<T>(path: string): Promise<T> {
    return (await this.#request(path, { method: 'DELETE' })).json() as Promise<T>
  }

  async stream(path: string): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.#request(path, { method: 'GET' })
    if (body === null) throw new CommandFailed(EXIT.failed, 'the server sent an empty stream')
    return body
  }

  async #request(
    path: string,
    init: { method: string; body?: string; headers?: Record<string, string> },
  ): Promise<Response> {
    const headers = { ...init.headers, authorization: `Bearer ${this.#apiKey}`, 'x-bailiff-client': 'cli' }
    let response: Response
    try {
      response = await fetch(`${this.url}${path}`, { ...init, headers })
    } catch {
      throw noServer(`no Bailiff server answers at ${this.url}`)
    }
    if (!response.ok) throw await failureOf(response)
    return response
  }
}

function withJson(method: string, body: object) {
  return { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
}

async function failureOf(response: Response): Promise<CommandFailed> {
  const problem = await problemOf(response)
  const detail = typeof problem.detail === 'string' ? oneLine(problem.detail) : `the server answered ${response.status}`
  const remedy = typeof problem.remedy === 'string' ? oneLine(problem.remedy) : null
  return new CommandFailed(exitCodeOf(response.status), detail, remedy)
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const body: unknown = await response.json()
    return typeof body === 'object' && body !== null ? body : {}
  } catch {
    return {}
  }
}

function exitCodeOf(status: number): ExitCode {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 422:
      return EXIT.usage
    case 401:
    case 403:
    case 409:
    case 429:
      return EXIT.refused
    case 404:
      return EXIT.notFound
    default:
      return EXIT.failed
  }
}
