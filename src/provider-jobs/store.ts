import type { DeliveryStore } from './delivery.ts'
import type { JobListing } from './listing.ts'
import type { JobReader } from './reader.ts'
import type { SettlementStore } from './settle.ts'
import type { JobReservations } from './submit.ts'

/** What tools may do with jobs: they name the organization in every verb, and reach no other's. */
export interface ToolJobs extends JobReservations, JobReader {}

/** Everything that is stored about jobs. */
export interface ProviderJobStore extends ToolJobs, DeliveryStore, SettlementStore, JobListing {}
