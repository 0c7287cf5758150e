import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { ERROR_CODES, type ErrorCode } from '../tools/errors.ts'
import type { JsonValue } from '../tools/json.ts'

/** Faults of a request itself; the rest of the codes are the platform's own table. */
const REQUEST_CODES = {
  malformed_request: { status: 400, title: 'Malformed request' },
  unauthenticated: { status: 401, title: 'Not signed in' },
  forbidden: { status: 403, title: 'Not allowed' },
  origin_refused: { status: 403, title: 'Foreign origin' },
  host_refused: { status: 403, title: 'Foreign host name' },
  payload_too_large: { status: 413, title: 'Request too large' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  too_many_attempts: { status: 429, title: 'Too many attempts' },
} as const satisfies Record<string, { readonly status: ContentfulStatusCode; readonly title: string }>

export type ProblemCode = ErrorCode | keyof typeof REQUEST_CODES

const CODES = { ...ERROR_CODES, ...REQUEST_CODES } satisfies Record<ProblemCode, { status: number; title: string }>

export interface ProblemParts {
  readonly code: ProblemCode
  /** What is wrong with this very request. */
  readonly detail: string
  /** What the caller can do about it. */
  readonly remedy: string
  /** Members of our own beside the standard ones. */
  readonly extra?: Readonly<Record<string, JsonValue>>
  readonly headers?: Readonly<Record<string, string>>
}

/** Thrown by routes; the app renders it. */
export class HttpProblem extends Error {
  override readonly name = 'HttpProblem'
  readonly parts: ProblemParts
  constructor(parts: ProblemParts, options?: ErrorOptions) {
    super(parts.detail, options)
    this.parts = parts
  }
}

/** RFC 9457 problem details. */
export function problemResponse({ code, detail, remedy, extra, headers }: ProblemParts): Response {
  const { status, title } = CODES[code]
  const body = { ...extra, type: `urn:bailiff:problem:${code}`, title, status, detail, code, remedy }
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/problem+json', ...headers },
  })
}

/** For an id that is unknown, of another organization, or no id at all: the three must look the same. */
export function unknownId(what: string, remedy: string): HttpProblem {
  return new HttpProblem({ code: 'not_found', detail: `there is no such ${what}`, remedy })
}
