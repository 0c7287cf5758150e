import { z } from 'zod'
import { isLoopback } from './loopback.ts'

/** How this server works with Inngest. */
export interface InngestSettings {
  readonly eventKey: string | null
  readonly signingKey: string | null
  /** Of a self-hosted or development server; null for Inngest’s cloud, or the development server’s usual address. */
  readonly baseUrl: string | null
  /** A development server: what it asks is not signed. */
  readonly dev: boolean
}

const key = z.string().regex(/^[\x21-\x7e]{1,512}$/)

const address = z.string().refine((text) => {
  const url = URL.parse(text)
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:') && url.username === ''
})

const dev = z.union([
  z.enum(['1', 'true']).transform(() => true as const),
  z.enum(['0', 'false']).transform(() => false as const),
  address,
])

export const INNGEST_VARIABLES = {
  INNGEST_EVENT_KEY: { schema: key, remedy: 'write the event key of the environment' },
  INNGEST_SIGNING_KEY: { schema: key, remedy: 'write the signing key of the environment' },
  INNGEST_BASE_URL: { schema: address, remedy: 'write the http(s) address of the server; without it, Inngest’s cloud' },
  INNGEST_DEV: {
    schema: dev,
    remedy: 'write 1 for a development server on this machine, or its http(s) address; leave it out elsewhere',
  },
} as const

/** The value of a variable as its schema reads it; null where there is none. */
export type InngestReader = (variable: keyof typeof INNGEST_VARIABLES) => string | boolean | null

export interface InngestProblem {
  readonly variable: string
  readonly message: string
}

/** Null for the embedded engine. What is missing is told to `refuse`: without keys nothing could be sent or believed. */
export function inngestSettings(
  engine: 'embedded' | 'inngest',
  read: InngestReader,
  refuse: (problem: InngestProblem) => void,
): InngestSettings | null {
  const [eventKey, signingKey, baseUrl] = [
    text(read('INNGEST_EVENT_KEY')),
    text(read('INNGEST_SIGNING_KEY')),
    text(read('INNGEST_BASE_URL')),
  ]
  const given = read('INNGEST_DEV')
  if (engine !== 'inngest') return null
  const isDev = given !== null && given !== false
  const ask = 'is needed with BAILIFF_ENGINE=inngest, unless INNGEST_DEV names a development server'
  if (!isDev && eventKey === null) refuse({ variable: 'INNGEST_EVENT_KEY', message: ask })
  if (!isDev && signingKey === null) refuse({ variable: 'INNGEST_SIGNING_KEY', message: ask })
  return { eventKey, signingKey, baseUrl: baseUrl ?? text(given), dev: isDev }
}

function text(value: string | boolean | null): string | null {
  return typeof value === 'string' ? value : null
}

export function inngestWarnings(settings: InngestSettings | null, host: string): string[] {
  if (settings === null || !settings.dev || isLoopback(host)) return []
  return [
    `INNGEST_DEV takes requests to /api/inngest unsigned, and ${host} is open to others: use it on this machine alone`,
  ]
}
