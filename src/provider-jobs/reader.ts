import type { JsonValue } from '../tools/json.ts'
import type { JobKey, ProviderJob } from './job.ts'

/** What a collect reads. It writes nothing and asks nobody. */
export interface JobReader {
  /** Null for an unknown job, and for one of another organization or provider: a caller cannot tell them apart. */
  read(key: JobKey): Promise<ProviderJob | null>
  /**
   * The whole result, resolved where it stands apart; null while there is none.
   * @throws Error for a reference that leads nowhere: a fault of storage, never an empty result
   */
  result(job: ProviderJob): Promise<JsonValue | null>
}
