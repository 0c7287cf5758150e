import type { HttpBindings } from '@hono/node-server'
import type { App } from './app.ts'
import { listen, type ListenRequest } from './listen.ts'
import { problemResponse } from './problems.ts'

/** The port of the platform: taken before anything else is, and answered with 503 until there is an app behind it. */
export interface Door {
  readonly url: string
  readonly port: number
  /** Aborts when the door closes, for streams that would keep it open. */
  readonly closing: AbortSignal
  admit(app: App): void
  /** Safe to call twice. */
  close(): Promise<void>
}

/** @throws ListenError */
export async function openDoor(
  where: Pick<ListenRequest, 'host' | 'port'> & { readonly graceMs: number },
): Promise<Door> {
  const closing = new AbortController()
  let app: App | null = null
  const fetch = (request: Request, env: HttpBindings): Response | Promise<Response> =>
    app === null ? notYet() : app.fetch(request, env)
  const listening = await listen({ host: where.host, port: where.port, fetch })
  let closed: Promise<void> | undefined
  return {
    url: listening.url,
    port: listening.port,
    closing: closing.signal,
    admit(admitted) {
      app = admitted
    },
    close() {
      closing.abort()
      closed ??= listening.close(where.graceMs)
      return closed
    },
  }
}

function notYet(): Response {
  return problemResponse({
    code: 'unavailable',
    detail: 'the server is starting',
    remedy: 'try again in a moment',
    headers: { 'retry-after': '1' },
  })
}
