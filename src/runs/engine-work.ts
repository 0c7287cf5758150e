import { everySeconds, CronError, tickAt } from './cron.ts'
import type { DurableJob, EngineWork } from './engine.ts'

const NAME = /^[a-z][a-z0-9_.-]{0,63}$/
const MAX_RETRIES = 20

/** Work that an engine was given cannot be done as it is described. */
export class EngineWorkError extends Error {
  override readonly name = 'EngineWorkError'
}

/**
 * What a queue may keep of a fault: its kind. The text of an error can carry a credential or a stranger's words; it stays
 * in the log of the process that met it.
 */
export class WorkFault extends Error {
  override readonly name = 'WorkFault'
  readonly kind: string
  constructor(kind: string) {
    super(`${kind}; the log has the details`)
    this.kind = kind
  }
}

export function faultKind(error: unknown): string {
  if (error instanceof WorkFault) return error.kind
  return error instanceof Error && NAME.test(error.name.toLowerCase()) ? error.name : 'Error'
}

/** Names every fault of the work before an engine takes any of it. @throws EngineWorkError */
export function checkWork({ jobs, crons }: Pick<EngineWork, 'jobs' | 'crons'>): void {
  const problems = [
    ...Object.entries(jobs).flatMap(([name, job]) => jobProblems(name, job)),
    ...crons.flatMap(({ name, every }) => [...nameProblems('cron', name), ...everyProblems(name, every)]),
    ...repeated(crons.map(({ name }) => name)).map((name) => `two crons are named ${JSON.stringify(name)}`),
  ]
  if (problems.length > 0) throw new EngineWorkError(problems.join('\n'))
}

/** @throws EngineWorkError */
export function jobNamed(work: Pick<EngineWork, 'jobs'> | null, name: string): DurableJob {
  if (work === null) throw new EngineWorkError('the engine was not started')
  const job = Object.hasOwn(work.jobs, name) ? work.jobs[name] : undefined
  if (job === undefined) throw new EngineWorkError(`there is no job ${JSON.stringify(name.slice(0, 64))}`)
  return job
}

/** Milliseconds before the next try: the base, doubled with every failure, at most a minute. */
export function backoffMs(baseMs: number, failures: number): number {
  return Math.min(60_000, baseMs * 2 ** Math.min(failures - 1, 16))
}

/** Tries of one wake-up before it is left to the sweep. */
export const ADVANCE_TRIES = 5

function jobProblems(name: string, { retries }: DurableJob): string[] {
  const fits = Number.isInteger(retries) && retries >= 0 && retries <= MAX_RETRIES
  return [...nameProblems('job', name), ...(fits ? [] : [`job ${name}: retries are a whole number from 0 to 20`])]
}

function nameProblems(what: string, name: string): string[] {
  return NAME.test(name) ? [] : [`${what} ${JSON.stringify(name.slice(0, 64))}: a name is a letter, then a-z 0-9 _ . -`]
}

function everyProblems(name: string, every: number | string): string[] {
  try {
    if (typeof every === 'number') everySeconds(every)
    else tickAt(every, new Date(0))
    return []
  } catch (error) {
    if (error instanceof CronError) return [`cron ${name}: ${error.message}`]
    throw error
  }
}

function repeated(names: readonly string[]): string[] {
  return [...new Set(names.filter((name, index) => names.indexOf(name) !== index))]
}
