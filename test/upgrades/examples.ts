import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { SessionState } from '../../src/runs/session.ts'
import type { StoredRows } from './rows.ts'

export const EXAMPLES = new URL('./examples/', import.meta.url)

/** How to add what is missing. Nothing that is there is ever recorded again: it is what a released build has stored. */
export const RECORD = 'node --conditions=bailiff:source scripts/record-upgrade-examples.ts'

/** Saved states of one framework and one version, by the moment they were saved at. */
export type StateExample = Readonly<Record<string, SessionState>>

/** A database with two parked runs: one of the platform, one of a loop that belongs to its own code. */
export interface ParkedExample extends StoredRows {
  readonly managedRun: string
  readonly ownLoopRun: string
}

export const stateFile = (framework: string, version: number): string => `${framework}.v${version}.json`
export const parkedFile = (migration: string): string => `parked.${migration}.json`

export function pathOf(file: string): string {
  return fileURLToPath(new URL(file, EXAMPLES))
}

export function stateExample(framework: string, version: number): StateExample | null {
  const path = pathOf(stateFile(framework, version))
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as StateExample) : null
}

export function parkedExamples(): readonly ParkedExample[] {
  const files = readdirSync(EXAMPLES).filter((file) => file.startsWith('parked.'))
  return files.toSorted().map((file) => JSON.parse(readFileSync(pathOf(file), 'utf8')) as ParkedExample)
}

/** A framework as a build reads it: the version it writes, and how it restores. */
export interface Readable {
  readonly framework: string
  readonly version: number
  readonly restore: (saved: SessionState) => unknown
}

/** What keeps this build from going on with a state that an earlier one saved, or the next one from knowing it. */
export function upgradeProblems({ framework, version, restore }: Readable): string[] {
  const versions = Array.from({ length: version }, (_, index) => index + 1)
  return versions.flatMap((version) => {
    const example = stateExample(framework, version)
    if (example === null) return [`${framework} has no example of version ${version}; add it: ${RECORD}`]
    return Object.entries(example).flatMap(([moment, saved]) => {
      if (saved.framework !== framework || saved.version !== version)
        return [`${moment} in ${stateFile(framework, version)} is ${saved.framework} ${saved.version}`]
      return failureOf(() => restore(saved)).map((problem) => `version ${version}, ${moment}: ${problem}`)
    })
  })
}

function failureOf(work: () => unknown): string[] {
  try {
    work()
    return []
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}
