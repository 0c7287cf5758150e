import { z } from 'zod'
import type { Credential } from '../../tools/invocation.ts'

/** The name beside a sender's address: one line. */
export const FROM_NAME = z
  .string()
  .max(100)
  .regex(/^[^\p{Cc}]*$/u)

/** Settings of a connection as `schema` reads them. Throws a plain error that names what is wrong and never its value. */
export function settingsOf<T>(credential: Credential, schema: z.ZodType<T>): T {
  const read = schema.safeParse(credential.settings)
  if (!read.success) throw misconfigured(credential, read.error.issues.map(faultOf).join('; '))
  return read.data
}

/** The same for the secrets. */
export function secretsOf<T>(credential: Credential, schema: z.ZodType<T>): T {
  const read = schema.safeParse(credential.secrets)
  if (!read.success) throw misconfigured(credential, `secrets: ${read.error.issues.map(faultOf).join('; ')}`)
  return read.data
}

/** For an operator. */
export function misconfigured(credential: Credential, what: string): Error {
  return new Error(`Email connection ${credential.connectionId} is not set up correctly: ${what}`)
}

function faultOf(issue: z.core.$ZodIssue): string {
  return issue.code === 'unrecognized_keys'
    ? `unknown setting ${issue.keys.join(', ')}`
    : `${issue.path.join('.')} is not usable`
}
