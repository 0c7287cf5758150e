import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { z } from 'zod'

const ProcessIdentity = z.object({
  pid: z.int().positive(),
  host: z.string(),
  /** Boot of the machine; null where the system does not say. */
  boot: z.string().nullable(),
  /** When the process started, in the system's own form; null where it does not say. Tells it from a later process with the same pid. */
  start: z.string().nullable(),
})
export type ProcessIdentity = Readonly<z.infer<typeof ProcessIdentity>>

export function thisProcess(): ProcessIdentity {
  return { pid: process.pid, host: hostname(), boot: bootId(), start: startOf(process.pid) }
}

/** Undefined for text that no process wrote, or that it has not finished writing. */
export function parseProcess(text: string): ProcessIdentity | undefined {
  try {
    return ProcessIdentity.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}

/** Whether the process has certainly ended. A process on another host is never known to be gone. */
export function isGone(holder: ProcessIdentity): boolean {
  if (holder.host !== hostname()) return false
  const boot = bootId()
  if (holder.boot !== null && boot !== null && holder.boot !== boot) return true
  if (!isRunning(holder.pid) || isZombie(holder.pid)) return true
  const start = startOf(holder.pid)
  return holder.start !== null && start !== null && holder.start !== start
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it runs, as another user.
    return !(error instanceof Error && Reflect.get(error, 'code') === 'ESRCH')
  }
}

function bootId(): string | null {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return null
  }
}

/** Ended, but nobody has collected its exit status: common in containers without an init process. */
function isZombie(pid: number): boolean {
  return statFields(pid)?.[0] === 'Z'
}

function startOf(pid: number): string | null {
  // Field 22 of the whole line: clock ticks since boot.
  return statFields(pid)?.[19] ?? startFromPs(pid)
}

/** Fields of /proc/<pid>/stat from the third on; counted after the command's closing bracket, since a command may hold spaces. */
function statFields(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  } catch {
    return undefined
  }
}

function startFromPs(pid: number): string | null {
  if (process.platform === 'win32' || process.platform === 'linux') return null
  try {
    // The same text for every reader, whatever its own language and time zone.
    const env = { LC_ALL: 'C', TZ: 'UTC' }
    return execFileSync('/bin/ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8', env }).trim() || null
  } catch {
    return null
  }
}
