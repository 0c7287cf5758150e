/** What a database says about itself, and how far it knows that it has come. */
export interface Installation {
  /** Of the cluster, or of the data folder; see {@link clusterIdentity}. */
  readonly identity: string
  /** Moves all the time and never back. */
  readonly generation: number
}

export interface InstallationReading {
  /** What the cluster says it is now; null for an embedded database, which is known by the file beside it alone. */
  readonly cluster: string | null
  /** What stands in the database; null where nobody has noted anything yet. */
  readonly stored: Installation | null
  /** What was noted outside of the database, in the data folder; null where there is no such file. */
  readonly witness: Installation | null
}

export type RestoreVerdict =
  /** Nothing was noted anywhere: a new database, or one that no build before this one noted. */
  | { readonly kind: 'new' }
  | { readonly kind: 'same' }
  /** The database may not know of effects that happened. The reason is for a person. */
  | { readonly kind: 'restored'; readonly reason: string }

/**
 * Whether a database came back from a backup since somebody last worked on it. A copy of a database says about itself
 * what the original said, so that only what is outside of it can tell: the cluster it stands in, and the file in the data
 * folder. What cannot be told is reported as a restore only where something speaks for one.
 */
export function judgeRestore(reading: InstallationReading): RestoreVerdict {
  return reading.cluster === null ? judgeFolder(reading) : judgeCluster(reading, reading.cluster)
}

/** Every process of a deployment has its own data folder, and a container may start with an empty one: no file says nothing. */
function judgeCluster({ stored, witness }: InstallationReading, cluster: string): RestoreVerdict {
  // A file of another database says nothing about this one.
  const seen = witness !== null && sameCluster(witness.identity, cluster) ? witness : null
  if (stored === null)
    return seen === null ? { kind: 'new' } : restored('it does not know that this server has worked on it')
  const change = clusterChange(stored.identity, cluster)
  if (change !== null) return restored(change)
  if (seen !== null && stored.generation < seen.generation) return restored(behind(stored, seen))
  return { kind: 'same' }
}

function judgeFolder({ stored, witness }: InstallationReading): RestoreVerdict {
  if (stored === null && witness === null) return { kind: 'new' }
  if (witness === null) return restored('the file that belongs to it is not in the data folder')
  if (stored === null) return restored('it does not know the file in its data folder')
  if (stored.identity !== witness.identity) return restored('it belongs to another data folder')
  if (stored.generation < witness.generation) return restored(behind(stored, witness))
  return { kind: 'same' }
}

function restored(reason: string): RestoreVerdict {
  return { kind: 'restored', reason }
}

function behind(stored: Installation, seen: Installation): string {
  return `it has gone back from generation ${seen.generation} to ${stored.generation}`
}

/** What a part says that may not be read. It is compared with nothing. */
const UNKNOWN = '?'

export interface ClusterParts {
  /** Null where the role may not ask. */
  readonly system: string | null
  readonly timeline: number | null
  /** Of the database within its cluster: one that is restored into the same cluster gets another. */
  readonly databaseOid: number
}

export function clusterIdentity({ system, timeline, databaseOid }: ClusterParts): string {
  return ['pg', system ?? UNKNOWN, timeline ?? UNKNOWN, databaseOid].join(':')
}

function sameCluster(one: string, other: string): boolean {
  return clusterChange(one, other) === null
}

function clusterChange(before: string, now: string): string | null {
  const [old, current] = [before.split(':'), now.split(':')]
  if (old.length !== 4 || current.length !== 4) return 'what it says about its cluster cannot be read'
  const differs = (part: number): boolean =>
    old[part] !== current[part] && old[part] !== UNKNOWN && current[part] !== UNKNOWN
  if (differs(0) || differs(1)) return 'it stands in another cluster'
  if (differs(2)) return `its cluster has gone from timeline ${old[2]} to ${current[2]}`
  return differs(3) ? 'it is another database of the same cluster' : null
}
