import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import type { Server } from 'node:http'

export interface Listening {
  /** Where this machine reaches the server: a wildcard address is answered as loopback. */
  readonly url: string
  readonly port: number
  /** Takes no new request, lets those in flight end for at most `graceMs`, then hangs up. */
  close(graceMs: number): Promise<void>
}

export type ListenFault = 'port_in_use' | 'not_permitted' | 'no_such_address'

/** The server cannot listen. The message names the address, the variable and what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly fault: ListenFault
  readonly port: number
  constructor(fault: ListenFault, port: number, message: string) {
    super(message)
    this.fault = fault
    this.port = port
  }
}

export interface ListenRequest {
  readonly host: string
  readonly port: number
  readonly fetch: (request: Request, env: HttpBindings) => Response | Promise<Response>
}

/** @throws ListenError */
export async function listen({ host, port, fetch }: ListenRequest): Promise<Listening> {
  const server = createAdaptorServer({ fetch: (request, env) => fetch(request, env as HttpBindings) }) as Server
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(refused(error, host, port)))
    server.listen(port, host, resolve)
  })
  const address = server.address()
  const bound = typeof address === 'object' && address !== null ? address.port : port
  return { url: urlOf(host, bound), port: bound, close: (graceMs) => close(server, graceMs) }
}

async function close(server: Server, graceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve())
  })
  server.closeIdleConnections()
  const timer = setTimeout(() => server.closeAllConnections(), graceMs)
  await closed
  clearTimeout(timer)
}

function refused(error: Error, host: string, port: number): Error {
  const code: unknown = Reflect.get(error, 'code')
  const where = `port ${port} on ${host}`
  switch (code) {
    case 'EADDRINUSE':
      return new ListenError(
        'port_in_use',
        port,
        `${where} is in use; stop the program that uses it, or choose another port with BAILIFF_PORT`,
      )
    case 'EACCES':
      return new ListenError(
        'not_permitted',
        port,
        `${where} may not be used by this user; choose a port above 1023 with BAILIFF_PORT`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new ListenError(
        'no_such_address',
        port,
        `${host} is no address of this machine; correct BAILIFF_HOST (127.0.0.1 for this machine alone, 0.0.0.0 for every network)`,
      )
    default:
      return error
  }
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '[::1]' : host.includes(':') ? `[${host}]` : host
  return `http://${reachable}:${port}`
}
