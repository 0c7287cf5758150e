import type { JobRecord, JobState, ProviderJob } from './job.ts'

export interface JobFilter {
  readonly state?: JobState
  readonly provider?: string
  readonly runId?: string
  /** Ended, and nobody has written down what it cost. */
  readonly unsettled?: boolean
  readonly limit: number
  /** The last job of the page before. */
  readonly cursor: string | null
}

export interface JobPage {
  /** Newest first. Without their results: what people are called and where they are reached is for whoever collects. */
  readonly items: readonly JobRecord[]
  readonly nextCursor: string | null
}

/** For people. */
export interface JobListing {
  list(organizationId: string, filter: JobFilter): Promise<JobPage>
  get(organizationId: string, id: string): Promise<ProviderJob | null>
}
