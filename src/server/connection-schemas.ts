import { z } from '@hono/zod-openapi'
import type { ConnectionRecord } from '../connections/connection.ts'
import type { ProviderView } from '../connections/service.ts'
import { ActorSchema } from './schemas.ts'

/** Shapes of connections in the API. None has a place for a secret to come out of. */

const Instant = z.iso.datetime()
const State = z.enum(['connected', 'needs_reauth', 'revoked'])

export const ConnectionSchema = z
  .object({
    id: z.uuid(),
    provider: z.string(),
    label: z.string(),
    state: State,
    auth: z.enum(['external', 'secret', 'oauth2']),
    settings: z.record(z.string(), z.string()),
    account: z.string().nullable(),
    scope: z.string().nullable(),
    expiresAt: Instant.nullable(),
    reauthReason: z.string().nullable(),
    createdAt: Instant,
    changedAt: Instant,
    changedBy: ActorSchema.nullable(),
  })
  .openapi('Connection')

export const ProviderSchema = z
  .object({
    name: z.string(),
    title: z.string(),
    auth: z.enum(['secret', 'oauth2']),
    fields: z.array(z.object({ name: z.string(), title: z.string(), optional: z.boolean() })),
    /** JSON Schema; null for a provider without settings. */
    settings: z.record(z.string(), z.unknown()).nullable(),
  })
  .openapi('ConnectionProvider')

export const ConnectionQuery = z.object({ provider: z.string().max(63).optional(), state: State.optional() })

const name = z.string().min(1).max(63)
const label = z.string().min(1).max(200)
const texts = z.record(z.string().max(63), z.string().max(20_000))

export const ConnectBody = z
  .strictObject({ provider: name, label, settings: texts.default({}), secrets: texts })
  .openapi('ConnectionBody')

export const AuthorizeBody = z
  .strictObject({ provider: name, label, settings: texts.default({}) })
  .openapi('AuthorizationBody')

/** Secrets for a provider that takes them; nothing for one that people sign in at. */
export const ReconnectBody = z
  .strictObject({ secrets: texts.optional(), settings: texts.optional() })
  .openapi('ReconnectBody')

export const AuthorizationSchema = z
  .object({ authorizationUrl: z.url(), expiresAt: Instant })
  .openapi('ConnectionAuthorization')

/** One of the two: the connection is back, or a person has to open the address first. */
export const ReconnectionSchema = z
  .object({ connection: ConnectionSchema, authorization: AuthorizationSchema.nullable() })
  .openapi('Reconnection')

export function connectionJson(connection: ConnectionRecord): z.input<typeof ConnectionSchema> {
  const { organizationId: _, expiresAt, createdAt, changedAt, settings, ...rest } = connection
  return {
    ...rest,
    settings: { ...settings },
    expiresAt: expiresAt?.toISOString() ?? null,
    createdAt: createdAt.toISOString(),
    changedAt: changedAt.toISOString(),
  }
}

export function providerJson({ settings, fields, ...view }: ProviderView): z.input<typeof ProviderSchema> {
  const schema = settings === null ? null : z.toJSONSchema(settings, { io: 'input', unrepresentable: 'any' })
  return { ...view, fields: [...fields], settings: schema === null ? null : { ...schema } }
}
