import type { Credentials } from '../repository.ts'
import type { SealOwner, Vault } from '../vault/vault.ts'
import type { Tokens } from './oauth-client.ts'

export const ACCESS_TOKEN = 'accessToken'
export const REFRESH_TOKEN = 'refreshToken'

interface Granted {
  readonly owner: SealOwner
  readonly tokens: Tokens
  readonly now: Date
}

/** What a provider granted, in the form in which it is stored. */
export async function credentialsOf(vault: Vault, { owner, tokens, now }: Granted): Promise<Credentials> {
  const { accessToken, refreshToken, expiresInS, scope, account } = tokens
  const secrets = {
    [ACCESS_TOKEN]: accessToken,
    ...(refreshToken === null ? {} : { [REFRESH_TOKEN]: refreshToken }),
  }
  return {
    auth: 'oauth2',
    secrets: await vault.sealAll(owner, secrets),
    account,
    scope,
    expiresAt: expiresInS === null ? null : new Date(now.getTime() + expiresInS * 1000),
  }
}
