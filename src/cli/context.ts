import { createInterface } from 'node:readline/promises'
import type { Environment } from '../server/settings.ts'

/** Options every command takes. */
export interface CommonOptions {
  readonly json?: boolean
  readonly url?: string
}

/** Where a command reads and writes. Answers go to standard output, everything else to standard error. */
export interface Context {
  readonly environment: Environment
  /** Machine-readable answers. */
  readonly json: boolean
  readonly url: string | null
  /** Whether a person sits in front of it. */
  readonly interactive: boolean
  out(text: string): void
  /** Progress and hints. Silent with `--json`, where only errors are said. */
  note(text: string): void
  /** Prints the value with `--json`, and the text otherwise. */
  answer(value: unknown, text: () => string): void
  /** False unless a person says yes. */
  confirm(question: string): Promise<boolean>
}

export function contextOf(options: CommonOptions): Context {
  const json = options.json === true
  const out = (text: string): void => void process.stdout.write(`${text}\n`)
  return {
    environment: process.env,
    json,
    url: options.url ?? null,
    interactive: process.stdin.isTTY && process.stdout.isTTY,
    out,
    note: (text) => {
      if (!json) process.stderr.write(`${text}\n`)
    },
    answer: (value, text) => out(json ? JSON.stringify(value) : text()),
    async confirm(question) {
      const lines = createInterface({ input: process.stdin, output: process.stderr })
      try {
        return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `)).trim())
      } finally {
        lines.close()
      }
    },
  }
}
