import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** What arrived at the mail server, counted from its files. Each is read once, so that one can ask often. */
export class ChaosOutbox {
  readonly #folder: string
  readonly #read = new Set<string>()
  readonly #byRecipient = new Map<string, number>()
  readonly #byMessageId = new Map<string, number>()

  constructor(folder: string) {
    this.#folder = folder
  }

  /** How often each address and each message id has arrived by now. */
  async look(): Promise<{
    readonly byRecipient: ReadonlyMap<string, number>
    readonly byMessageId: ReadonlyMap<string, number>
  }> {
    for (const name of await readdir(this.#folder)) {
      if (!name.endsWith('.eml') || this.#read.has(name)) continue
      const text = await readFile(join(this.#folder, name), 'utf8')
      this.#read.add(name)
      for (const [, address] of text.matchAll(/^Delivered-To: (\S+)\r$/gm)) count(this.#byRecipient, address)
      count(this.#byMessageId, /^Message-ID:\s+(\S+)/im.exec(text)?.[1])
    }
    return { byRecipient: this.#byRecipient, byMessageId: this.#byMessageId }
  }
}

function count(counts: Map<string, number>, key: string | undefined): void {
  if (key === undefined) throw new Error('a filed message has no recipient or no id')
  counts.set(key, (counts.get(key) ?? 0) + 1)
}
