import { z } from 'zod'
import type { ConnectionProvider } from '../../connections/provider.ts'
import { SMTP_SETTINGS } from './account.ts'
import { NYLAS_SETTINGS } from './nylas-mailbox.ts'

export interface EmailProviderOptions {
  /** Whether the deployment sends through Nylas as well. */
  readonly nylas?: boolean
}

/**
 * The accounts behind `email.send`, for people to connect: a mail server with `host`, `from` and, where it wants a
 * sign-in, user and password; with Nylas also `kind: nylas` and the `grantId` of a mailbox.
 */
export function emailProvider({ nylas = false }: EmailProviderOptions = {}): ConnectionProvider {
  return {
    name: 'email',
    title: 'Email account',
    auth: {
      kind: 'secret',
      fields: [
        { name: 'user', title: 'User', optional: true },
        { name: 'pass', title: 'Password', optional: true },
      ],
    },
    settings: z.record(z.string(), z.string()).superRefine((settings, context) => {
      const kind = Object.hasOwn(settings, 'kind') ? settings['kind'] : 'smtp'
      const schema = kind === 'nylas' && nylas ? NYLAS_SETTINGS : SMTP_SETTINGS
      for (const { path, message } of schema.safeParse(settings).error?.issues ?? [])
        context.addIssue({ code: 'custom', path: [...path], message })
    }),
    account: 'from',
  }
}
