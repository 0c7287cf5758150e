import { z } from 'zod'
import type { Credential } from '../../tools/invocation.ts'
import { ADDRESS_PATTERN, MAX_ADDRESS_LENGTH } from '../address.ts'
import { FROM_NAME, misconfigured, secretsOf, settingsOf } from './connection-settings.ts'

/** How the connection to the mail server is protected. `none` sends the mail readable for everybody on the way. */
export type SmtpSecurity = 'starttls' | 'implicit' | 'none'

/** A mail account, read from the settings and secrets of one connection. */
export interface SmtpAccount {
  readonly host: string
  readonly port: number
  readonly security: SmtpSecurity
  /** PEM text of the authority that signed the server's certificate, when it is not a public one. */
  readonly ca: string | null
  readonly from: { readonly address: string; readonly name: string }
  readonly auth: { readonly user: string; readonly pass: string } | null
}

const DEFAULT_PORTS: Readonly<Record<SmtpSecurity, number>> = { starttls: 587, implicit: 465, none: 25 }

/** Strict, so that a misspelt `security` cannot fall back to a weaker default unseen. */
export const SMTP_SETTINGS = z.strictObject({
  kind: z.literal('smtp').optional(),
  host: z.string().regex(/^[A-Za-z0-9.:-]{1,253}$/),
  port: z
    .string()
    .regex(/^[1-9][0-9]{0,4}$/)
    .refine((port) => Number(port) <= 65_535)
    .optional(),
  security: z.enum(['starttls', 'implicit', 'none']).default('starttls'),
  from: z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN),
  fromName: FROM_NAME.default(''),
  user: z.string().min(1).optional(),
  ca: z.string().startsWith('-----BEGIN CERTIFICATE-----').optional(),
})

const Secrets = z.object({ pass: z.string().min(1).optional(), user: z.string().min(1).optional() })

/**
 * Settings: `kind` (`smtp`, or left out), `host`, `port`, `security` (`starttls` unless said otherwise), `from`,
 * `fromName`, `user`, `ca`. Secrets: `pass`, and `user` where it is secret too. Throws a plain error that names the setting and never its value.
 */
export function smtpAccount(credential: Credential): SmtpAccount {
  const settings = settingsOf(credential, SMTP_SETTINGS)
  const secrets = secretsOf(credential, Secrets)
  const { host, security, from, fromName, ca } = settings
  const user = secrets.user ?? settings.user
  const { pass } = secrets
  if ((user === undefined) !== (pass === undefined)) {
    throw misconfigured(credential, 'a user needs a secret "pass", and a secret "pass" needs a user')
  }
  const auth = user === undefined || pass === undefined ? null : { user, pass }
  if (auth !== null && security === 'none' && !isLoopback(host)) {
    throw misconfigured(credential, 'security "none" would send the password readable over the network')
  }
  return {
    host,
    port: settings.port === undefined ? DEFAULT_PORTS[security] : Number(settings.port),
    security,
    ca: ca ?? null,
    from: { address: from, name: fromName },
    auth,
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}
