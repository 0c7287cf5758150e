import type { IncomingHttpHeaders } from 'node:http'
import type { PlayedTurn, Transcript } from '../src/testing/script.ts'

/** How one vendor's API reads a request and writes a turn. */
export interface ModelWire {
  readonly path: string
  /** The request as a transcript. @throws WireRefusal as the vendor would refuse it */
  read(body: unknown, headers: IncomingHttpHeaders): WireRequest
  /** The whole answer of a request that asked for no stream. */
  whole(turn: PlayedTurn, request: WireRequest): unknown
  /** Server-sent events, in order. */
  events(turn: PlayedTurn, request: WireRequest): readonly WireEvent[]
  error(status: number, message: string): unknown
}

export interface WireRequest {
  readonly model: string
  readonly stream: boolean
  readonly transcript: Transcript
  /** The stream is to end with a count of tokens. */
  readonly reportsUsage: boolean
}

export interface WireEvent {
  readonly event?: string
  readonly data: unknown
}

/** A request the vendor answers with a client error. */
export class WireRefusal extends Error {
  override readonly name = 'WireRefusal'
  readonly status: number
  constructor(message: string, status = 400) {
    super(message)
    this.status = status
  }
}

/** Names both vendors accept for a function; checked in declarations and in the history alike. */
const FUNCTION_NAME = /^[a-zA-Z0-9_-]{1,64}$/

export function checkFunctionName(name: string, where: string): void {
  if (FUNCTION_NAME.test(name)) return
  throw new WireRefusal(`Invalid '${where}': string does not match pattern. Expected '^[a-zA-Z0-9_-]{1,64}$'.`)
}

const ROOT_COMBINATORS = ['oneOf', 'anyOf', 'allOf', 'enum', 'not', 'const']

export function checkParameters(schema: Readonly<Record<string, unknown>>, where: string): void {
  const combinator = ROOT_COMBINATORS.find((keyword) => Object.hasOwn(schema, keyword))
  if (combinator !== undefined)
    throw new WireRefusal(`Invalid schema '${where}': ${combinator} is not supported at the top level.`)
  if (schema['type'] !== 'object')
    throw new WireRefusal(`Invalid schema '${where}': the root must be of type "object".`)
}
