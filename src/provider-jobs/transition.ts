import type { EndState, JobState } from './job.ts'

/** From where each state may be reached. Only the insert of a job makes it `submitted`. */
const FROM: Readonly<Record<JobState, readonly JobState[]>> = {
  submitted: [],
  running: ['submitted'],
  completed: ['submitted', 'running'],
  failed: ['submitted', 'running'],
  cancelled: ['submitted', 'running'],
}

/** States from which a job may move to `next`: what a conditional update of its row is conditional on. */
export function legalFrom(next: JobState): readonly JobState[] {
  return FROM[next]
}

export function isTerminal(state: JobState): state is EndState {
  return state !== 'submitted' && state !== 'running'
}

/** Where a job is after it was told `next`. An earlier state changes nothing, and a job that has ended stays where it is. */
export function afterUpdate(current: JobState, next: JobState): JobState {
  return FROM[next].includes(current) ? next : current
}
