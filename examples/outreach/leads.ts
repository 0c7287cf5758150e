/** One person to write to. Company and title are empty when the file does not say. */
export type Lead = {
  readonly name: string
  readonly email: string
  readonly company: string
  readonly title: string
}

/** Rows of a CSV file, with the line each of them starts on. */
export interface LeadRows {
  readonly columns: readonly string[]
  readonly rows: readonly Readonly<Record<string, string>>[]
  readonly lines: readonly number[]
}

export interface LeadProblem {
  /** Line of the file; null when the problem is the file itself. */
  readonly line: number | null
  readonly message: string
  readonly remedy: string
}

export type LeadsInput =
  | { readonly kind: 'input'; readonly input: { readonly leads: readonly Lead[] } }
  | { readonly kind: 'invalid'; readonly problems: readonly LeadProblem[] }

/** One search, and for each lead one upsert and one mail: within the hundred tool calls of a run. */
export const MAX_LEADS = 40

const REQUIRED = ['name', 'email'] as const
const EMAIL = /^[^\s@<>,;:"()[\]\\]+@[^\s@<>,;:"()[\]\\]+\.[^\s@<>,;:"()[\]\\.]+$/

/** Checks a file's rows for the columns an outreach run needs, and makes the run's input of them. */
export function leadsInput({ columns, rows, lines }: LeadRows): LeadsInput {
  const missing = REQUIRED.filter((name) => !columns.includes(name))
  if (missing.length > 0) {
    const message = `the header has no column ${missing.map((name) => `"${name}"`).join(' and no column ')}`
    return invalid([
      { line: 1, message, remedy: 'Name the columns name, email and, if you have them, company and title.' },
    ])
  }
  if (rows.length > MAX_LEADS) {
    const message = `${rows.length} leads are more than ${MAX_LEADS}`
    return invalid([{ line: null, message, remedy: 'Split the file and start one run for each part.' }])
  }
  const leads = rows.map(leadOf)
  const seen = new Map<string, number>()
  const problems = leads.flatMap((lead, index) => {
    const line = lines[index] ?? null
    const first = seen.get(lead.email.toLowerCase())
    seen.set(lead.email.toLowerCase(), first ?? line ?? 0)
    return problemsOf(lead, { line, first })
  })
  return problems.length > 0 ? invalid(problems) : { kind: 'input', input: { leads } }
}

function leadOf(row: Readonly<Record<string, string>>): Lead {
  const value = (column: string) => (Object.hasOwn(row, column) ? (row[column] ?? '') : '').replace(/\s+/g, ' ').trim()
  return { name: value('name'), email: value('email'), company: value('company'), title: value('title') }
}

function problemsOf(lead: Lead, at: { line: number | null; first: number | undefined }): LeadProblem[] {
  const problems: LeadProblem[] = []
  const found = (message: string, remedy: string) => problems.push({ line: at.line, message, remedy })
  if (lead.name === '') found('the name is empty', 'Fill it in, or remove the row.')
  if (!EMAIL.test(lead.email))
    found(`${JSON.stringify(lead.email)} is not an email address`, 'Correct it, or remove the row.')
  else if (at.first !== undefined) found(`${lead.email} is in line ${at.first} already`, 'Remove one of the two rows.')
  return problems
}

function invalid(problems: readonly LeadProblem[]): LeadsInput {
  return { kind: 'invalid', problems }
}
