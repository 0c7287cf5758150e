import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { Client } from 'pg'

/** A pooler that lends a connection of the server for one transaction, as PgBouncer does in its transaction mode. */
export interface TransactionPooler {
  /** The given URL, led through the pooler. */
  readonly url: string
  close(): Promise<void>
}

/** First byte of the server's message that says whether a transaction is open. */
const READY = 'Z'.charCodeAt(0)
const TERMINATE = 'X'.charCodeAt(0)
const SSL_REQUEST = 80_877_103

/** One connection of the server, past its sign-in. */
interface Backend {
  readonly socket: Socket
  readonly client: Client
}

/**
 * Speaks as much of the protocol as it takes: it answers the sign-in of a client by itself, and hands whole messages on
 * while a transaction lasts. It keeps no track of named statements, as PgBouncer before 1.21 does not.
 */
export async function transactionPooler(url: string): Promise<TransactionPooler> {
  const idle: Backend[] = []
  const all: Backend[] = []
  const clients = new Set<Socket>()
  const borrow = async (): Promise<Backend> => idle.pop() ?? (await opened(url, all))
  const server = createServer((client) => {
    clients.add(client)
    client.on('error', () => client.destroy())
    client.once('close', () => clients.delete(client))
    serve(client, { borrow, giveBack: (backend) => void idle.push(backend) })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const led = new URL(url)
  led.hostname = '127.0.0.1'
  led.port = String((server.address() as AddressInfo).port)
  return {
    url: led.href,
    async close() {
      for (const client of clients) client.destroy()
      server.close()
      await once(server, 'close')
      for (const { socket } of all) socket.destroy()
    },
  }
}

/** Signs in with the driver and takes its socket over. */
async function opened(connectionString: string, all: Backend[]): Promise<Backend> {
  const client = new Client({ connectionString })
  client.on('error', () => undefined)
  await client.connect()
  const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
  stream.removeAllListeners('data')
  const backend = { socket: stream, client }
  all.push(backend)
  return backend
}

interface Pool {
  borrow(): Promise<Backend>
  giveBack(backend: Backend): void
}

function serve(client: Socket, pool: Pool): void {
  let signedIn = false
  let rest = Buffer.alloc(0)
  let lent: Backend | null = null
  let waiting: Promise<void> = Promise.resolve()

  const pass = async (message: Buffer): Promise<void> => {
    if (message[0] === TERMINATE) return void client.end()
    if (lent === null) {
      const backend = await pool.borrow()
      lent = backend
      let tail = Buffer.alloc(0)
      backend.socket.on('data', (data: Buffer) => {
        client.write(data)
        tail = Buffer.concat([tail, data])
        for (let size = sizeOf(tail, 1); size !== null; size = sizeOf(tail, 1)) {
          const free = tail[0] === READY && tail[5] === 'I'.charCodeAt(0)
          tail = tail.subarray(size)
          if (!free) continue
          backend.socket.removeAllListeners('data')
          lent = null
          pool.giveBack(backend)
        }
      })
    }
    lent.socket.write(message)
  }

  client.on('data', (data: Buffer) => {
    rest = Buffer.concat([rest, data])
    const typed = signedIn ? 1 : 0
    for (let size = sizeOf(rest, typed); size !== null; size = sizeOf(rest, signedIn ? 1 : 0)) {
      const message = rest.subarray(0, size)
      rest = rest.subarray(size)
      if (!signedIn && message.readInt32BE(4) === SSL_REQUEST) client.write('N')
      else if (!signedIn) {
        signedIn = true
        client.write(WELCOME)
      } else waiting = waiting.then(() => pass(message))
    }
  })
}

/** Bytes of the first whole message; null while some are missing. A sign-in has no byte of type before its length. */
function sizeOf(bytes: Buffer, typed: 0 | 1): number | null {
  if (bytes.length < typed + 4) return null
  const size = typed + bytes.readInt32BE(typed)
  return bytes.length < size ? null : size
}

function message(type: string, body: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(body.length + 4)
  return Buffer.concat([Buffer.from(type), length, body])
}

/** Signed in, with a key for cancelling that cancels nothing, and ready. */
const WELCOME = Buffer.concat([
  message('R', Buffer.alloc(4)),
  message('K', Buffer.alloc(8)),
  message('Z', Buffer.from('I')),
])
