import type { z } from 'zod'
import type { KeySchema, NewKeySchema } from '../../server/schemas.ts'
import { connect, type ListAnswer } from '../client.ts'
import type { Context } from '../context.ts'
import { oneLine, table } from '../text.ts'

type KeyJson = z.output<typeof KeySchema>
type NewKeyJson = z.output<typeof NewKeySchema>

export interface NewKeyOptions {
  readonly kind: string
  readonly name: string
}

export async function listKeys(context: Context): Promise<void> {
  const client = await connect(context)
  const page = await client.get<ListAnswer<KeyJson>>('/api/v1/keys')
  context.answer(page, () =>
    table([
      ['id', 'kind', 'state', 'name'],
      ...page.items.map(({ id, kind, name, revokedAt }) => [
        id,
        kind,
        revokedAt === null ? 'valid' : 'REVOKED',
        oneLine(name),
      ]),
    ]),
  )
}

export async function createKey(context: Context, options: NewKeyOptions): Promise<void> {
  const client = await connect(context)
  const key = await client.post<NewKeyJson>('/api/v1/keys', { kind: options.kind, name: options.name })
  context.answer(key, () => `${key.secret}\n(a key of kind ${key.kind}, shown this once; its id is ${key.id})`)
}

export async function revokeKey(context: Context, id: string): Promise<void> {
  const client = await connect(context)
  const revoked = await client.delete<{ id: string }>(`/api/v1/keys/${encodeURIComponent(id)}`)
  context.answer(revoked, () => `${revoked.id} is revoked`)
}
