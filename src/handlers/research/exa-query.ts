import type { JobFunction, PeopleQuery, Seniority } from './persona.ts'

/** As a person would say it: Exa reads natural language, and people search has no fields of its own. */
const SENIORITY_WORDS: Readonly<Record<Seniority, string>> = {
  owner: 'owner or founder',
  c_level: 'C-level executive',
  vp: 'vice president level',
  head: 'head of a department',
  director: 'director level',
  manager: 'manager level',
  senior: 'senior specialist without reports',
  entry: 'entry level',
}

const FUNCTION_WORDS: Readonly<Record<JobFunction, string>> = {
  general_management: 'general management',
  engineering: 'engineering',
  it: 'IT',
  security: 'security',
  data: 'data and analytics',
  product: 'product management',
  design: 'design',
  marketing: 'marketing',
  sales: 'sales',
  customer_success: 'customer success',
  operations: 'operations',
  supply_chain: 'supply chain and logistics',
  procurement: 'procurement',
  finance: 'finance',
  legal: 'legal',
  people: 'human resources',
}

/** The words of one people search, on one line: who, how senior, in which department, at which company, where. */
export function exaQueryText(query: PeopleQuery): string {
  const parts = [
    whoWords(query),
    query.seniority === undefined ? null : SENIORITY_WORDS[query.seniority],
    query.function === undefined ? null : `in ${FUNCTION_WORDS[query.function]}`,
    companyWords(query),
    query.location === undefined ? null : `based in ${query.location}`,
  ]
  return parts.filter((part) => part !== null).join(', ')
}

function whoWords({ title, titleFamily }: PeopleQuery): string {
  if (title !== undefined) return titleFamily === undefined ? title : `${title} or similar (${titleFamily})`
  return titleFamily === undefined ? 'people' : `people with ${titleFamily} titles`
}

function companyWords({ company, domain }: PeopleQuery): string | null {
  if (company !== undefined) return domain === undefined ? `at ${company}` : `at ${company} (${domain})`
  return domain === undefined ? null : `at the company of ${domain}`
}
