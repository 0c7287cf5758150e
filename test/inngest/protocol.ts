import { createHmac, createHash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** An event as the server keeps it. */
export interface StoredEvent {
  readonly id: string
  readonly name: string
  readonly data: unknown
  readonly ts: number
}

/** One thing a function asks for. */
export interface Op {
  readonly id: string
  readonly op: string
  readonly name?: string
  readonly opts?: { readonly timeout?: string; readonly if?: string }
  readonly data?: unknown
  readonly error?: unknown
}

export interface FunctionConfig {
  readonly id: string
  readonly triggers: readonly { readonly event?: string; readonly cron?: string; readonly expression?: string }[]
  readonly steps: { readonly step: { readonly retries?: { readonly attempts: number } } }
  readonly concurrency?: unknown
}

/** What a step left: its answer, its last error, or nothing after a sleep and after a wait that ran out. */
export type Memo = { readonly data: unknown } | { readonly error: unknown } | null

/** What one request carries. */
export interface Invocation {
  readonly fnId: string
  readonly runId: string
  /** `step`, or the id of a planned one. */
  readonly stepId: string
  readonly attempt: number
  readonly maxAttempts: number
  readonly event: StoredEvent
  readonly steps: ReadonlyMap<string, Memo>
}

/** Ids of steps are hashed before they are sent. */
export function stepHash(id: string): string {
  return createHash('sha1').update(id).digest('hex')
}

export function signatureOf(body: unknown, signingKey: string): string {
  const t = Math.round(Date.now() / 1000).toString()
  const text = body === '' ? '' : (canonicalize(body) ?? '')
  const key = signingKey.replace(/^signkey-\w+-/, '')
  return `t=${t}&s=${createHmac('sha256', key).update(text).update(t).digest('hex')}`
}

export interface Signing {
  readonly url: string
  readonly signingKey: string
}

export function invocationRequest(given: Invocation, { url, signingKey }: Signing): Request {
  const stack = [...given.steps.keys()]
  const body = {
    version: 1,
    event: given.event,
    events: [given.event],
    steps: Object.fromEntries(given.steps),
    ctx: {
      fn_id: `internal-${given.fnId}`,
      run_id: given.runId,
      attempt: given.attempt,
      max_attempts: given.maxAttempts,
      disable_immediate_execution: false,
      use_api: false,
      stack: { stack, current: stack.length },
    },
  }
  const address = new URL(url)
  address.searchParams.set('fnId', given.fnId)
  address.searchParams.set('stepId', given.stepId)
  return new Request(address, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      host: address.host,
      'x-inngest-signature': signatureOf(body, signingKey),
    },
    body: JSON.stringify(body),
  })
}

export function syncRequest({ url, signingKey }: Signing): Request {
  return new Request(url, {
    method: 'PUT',
    headers: { host: new URL(url).host, 'x-inngest-signature': signatureOf('', signingKey) },
  })
}

/** The comparisons and sums of paths and texts that our functions use; anything else is refused. */
export function evaluate(expression: string, scope: Readonly<Record<string, unknown>>): unknown {
  const [left, right, ...more] = expression.split('==').map((side) => side.trim())
  if (left === undefined || more.length > 0) throw new Error(`not understood: ${expression}`)
  return right === undefined ? sum(left, scope) : sum(left, scope) === sum(right, scope)
}

function sum(expression: string, scope: Readonly<Record<string, unknown>>): unknown {
  const terms = expression.split(' + ').map((term) => termOf(term.trim(), scope))
  return terms.length === 1 ? terms[0] : terms.map(String).join('')
}

function termOf(term: string, scope: unknown): unknown {
  const text = /^(["'])(.*)\1$/.exec(term)
  if (text !== null) return text[2]
  if (!/^\w+(\.\w+)*$/.test(term)) throw new Error(`not understood: ${term}`)
  let value = scope
  for (const part of term.split('.'))
    value = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[part] : undefined
  return value
}
