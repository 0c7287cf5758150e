import { z } from 'zod'
import { domain, line } from './arguments.ts'

export const SENIORITIES = ['owner', 'c_level', 'vp', 'head', 'director', 'manager', 'senior', 'entry'] as const

export const JOB_FUNCTIONS = [
  'general_management',
  'engineering',
  'it',
  'security',
  'data',
  'product',
  'design',
  'marketing',
  'sales',
  'customer_success',
  'operations',
  'supply_chain',
  'procurement',
  'finance',
  'legal',
  'people',
] as const

export type Seniority = (typeof SENIORITIES)[number]
export type JobFunction = (typeof JOB_FUNCTIONS)[number]

/** People asked for in one call: more than ten results cost extra. */
export const MAX_PEOPLE = 10

/** A buyer persona and where to look for it: the arguments of the tool, except who is asked. */
export const PERSONA_FIELDS = {
  title: line(100).optional().describe('A job title, such as "Head of Operations".'),
  titleFamily: line(100).optional().describe('Titles that mean much the same, such as "operations leadership".'),
  seniority: z.enum(SENIORITIES).optional(),
  function: z.enum(JOB_FUNCTIONS).optional().describe('The department.'),
  location: line(100).optional().describe('A city, region or country.'),
  company: line(100).optional().describe('Name of the company they work at.'),
  domain: domain().optional().describe('Domain of the company, such as "example.com".'),
  limit: z.int().min(1).max(MAX_PEOPLE).default(5),
} as const

export type PeopleQuery = z.output<z.ZodObject<typeof PERSONA_FIELDS>>

/** Whether a query says anything about whom: a place alone means everybody who lives there. */
export function namesAnybody({ title, titleFamily, seniority, function: job, company, domain }: PeopleQuery): boolean {
  return [title, titleFamily, seniority, job, company, domain].some((field) => field !== undefined)
}
