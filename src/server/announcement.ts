import type { RunRow } from '../runs/run-store.ts'
import { isScripted } from './models.ts'

export interface AnnouncementFacts {
  readonly url: string
  readonly token: string
  readonly apiKey: string | null
  readonly model: string
  /** Whether BAILIFF_MODEL chose it. */
  readonly modelChosen: boolean
  readonly database: { readonly dialect: 'pglite' | 'postgres'; readonly description: string }
  readonly selfApproval: boolean
  readonly notices: readonly string[]
  readonly warnings: readonly string[]
  /** Address others may reach, when the server listens beyond this machine. */
  readonly openTo: string | null
}

/** What a person needs after a start, one fact a line. `console:` and `api key:` stand alone on theirs, so that scripts can read them. */
export function announcement(facts: AnnouncementFacts): readonly string[] {
  return [
    ...facts.warnings.map((warning) => `warning: ${warning}`),
    `console: ${facts.url}/?token=${facts.token}`,
    ...(facts.apiKey === null
      ? []
      : [`api key: ${facts.apiKey}`, '         (an admin key, shown this once; the console link works once too)']),
    modelLine(facts),
    databaseLine(facts),
    ...(facts.openTo === null
      ? []
      : [
          `network: listening on ${facts.openTo} without TLS; put a proxy with TLS in front, and set BAILIFF_TRUST_PROXY=true`,
        ]),
    ...(facts.selfApproval
      ? ['approvals: who started a run may also decide on its calls here (selfApproval is on)']
      : []),
    ...facts.notices,
  ]
}

function modelLine({ model, modelChosen }: AnnouncementFacts): string {
  if (isScripted(model)) {
    const why = modelChosen ? 'BAILIFF_MODEL asks for it' : 'BAILIFF_MODEL is not set'
    return `model: ${model}, a scripted stand-in and no language model, because ${why}`
  }
  return `model: ${model}`
}

function databaseLine({ database }: AnnouncementFacts): string {
  return database.dialect === 'postgres'
    ? `database: ${database.description}`
    : `database: ${database.description}; safe against a killed process, not against power loss; set DATABASE_URL for anything you would miss`
}

export interface ClosingFacts {
  readonly url: string
  /** The run of a first start, as far as it has come. */
  readonly firstRun: RunRow | null
  readonly waiting: { readonly count: number; readonly more: boolean }
}

/** What the person does next. */
export function closingLines({ url, firstRun, waiting }: ClosingFacts): readonly string[] {
  return [...firstRunLines(url, firstRun), ...waitingLines(url, waiting), 'stop: press Ctrl-C']
}

function firstRunLines(url: string, run: RunRow | null): string[] {
  if (run === null) return []
  const where = `${url}/runs/${run.id}`
  switch (run.status) {
    case 'queued':
    case 'running':
      return [`first run: ${run.definition} is working; watch it at ${where}`]
    case 'parked':
    case 'completed':
      return [`first run: ${run.definition} is ${run.status === 'parked' ? 'waiting' : 'done'}; see ${where}`]
    case 'partial':
    case 'failed':
    case 'cancelled':
      return [
        `first run: ${run.definition} ended ${run.status} (${run.message ?? run.reason ?? 'no reason given'}); see ${where}`,
      ]
  }
}

function waitingLines(url: string, { count, more }: ClosingFacts['waiting']): string[] {
  if (count === 0) return []
  const what = more ? `more than ${count} approvals wait` : count === 1 ? '1 approval waits' : `${count} approvals wait`
  return [`waiting: ${what} for you at ${url}/ (or: bailiff approvals list)`]
}
