import type { Adapter, AdapterConstructor, AdapterPayload } from 'oidc-provider'

/** Where one authorization server of a test keeps what it issued. */
export function authorizationRecords(): AdapterConstructor {
  const records = new Map<string, AdapterPayload>()
  return class Records implements Adapter {
    readonly #kind: string

    constructor(kind: string) {
      this.#kind = kind
    }

    async upsert(id: string, payload: AdapterPayload): Promise<void> {
      records.set(this.#key(id), payload)
    }

    async find(id: string): Promise<AdapterPayload | undefined> {
      return records.get(this.#key(id))
    }

    async findByUid(uid: string): Promise<AdapterPayload | undefined> {
      return [...records.values()].find((payload) => payload.uid === uid && payload.kind === this.#kind)
    }

    async findByUserCode(): Promise<undefined> {
      return undefined
    }

    async consume(id: string): Promise<void> {
      const payload = records.get(this.#key(id))
      if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000)
    }

    async destroy(id: string): Promise<void> {
      records.delete(this.#key(id))
    }

    async revokeByGrantId(grantId: string): Promise<void> {
      for (const [key, payload] of records) if (payload.grantId === grantId) records.delete(key)
    }

    #key(id: string): string {
      return `${this.#kind}:${id}`
    }
  }
}
