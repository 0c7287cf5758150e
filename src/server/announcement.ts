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
  readonly waiting: { readonly count: number; readonly more: boolean }
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
    ...waitingLine(facts),
    'stop: press Ctrl-C',
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

function waitingLine({ waiting, url }: AnnouncementFacts): string[] {
  if (waiting.count === 0) return []
  const what = waiting.more
    ? `more than ${waiting.count} approvals wait`
    : waiting.count === 1
      ? '1 approval waits'
      : `${waiting.count} approvals wait`
  return [`waiting: ${what} for you at ${url}/ (or: bailiff approvals list)`]
}
