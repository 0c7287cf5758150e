import { createHash } from 'node:crypto'
import { canonicalJson } from '../tools/canonical.ts'

/** What a call is, as far as its job is concerned: the same call is the same job, in whichever process it is made. */
export interface JobOrigin {
  readonly organizationId: string
  readonly runId: string
  readonly stepPath: string
  readonly provider: string
  /** Hex sha-256 of the parsed arguments. */
  readonly argsHash: string
}

/** Derived and not random: a call made again finds its job even when the journal of the tool has forgotten the call. */
export function jobIdOf({ organizationId, runId, stepPath, provider, argsHash }: JobOrigin): string {
  return derivedId(['provider_job', organizationId, runId, stepPath, provider, argsHash])
}

/** The one usage row of a job: writing it again meets the row that is there. */
export function usageIdOf(jobId: string): string {
  return derivedId(['provider_job.usage', jobId])
}

/** A UUID of version 8: 122 bits of a sha-256. The parts are encoded so that no two lists of them read the same. */
function derivedId(parts: readonly string[]): string {
  const digest = createHash('sha256').update(canonicalJson(parts), 'utf8').digest()
  const bytes = Uint8Array.from(digest.subarray(0, 16))
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x80
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  const hex = Buffer.from(bytes).toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}

export const JOB_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
