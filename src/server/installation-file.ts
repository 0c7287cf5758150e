import { randomBytes } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import type { Installation } from '../decision/restore.ts'

const Shape = z.strictObject({ identity: z.string().min(1).max(200), generation: z.int().nonnegative() })

/** Beside the database folder and not in it: a database folder that is put back does not bring the file back. */
export function installationFilePath(dataDir: string): string {
  return join(dataDir, 'installation.json')
}

/** Null when there is none, or none that can be read. */
export async function readInstallationFile(dataDir: string): Promise<Installation | null> {
  try {
    return Shape.safeParse(JSON.parse(await readFile(installationFilePath(dataDir), 'utf8'))).data ?? null
  } catch {
    return null
  }
}

/** Written whole or not at all. */
export async function writeInstallationFile(dataDir: string, installation: Installation): Promise<void> {
  const path = installationFilePath(dataDir)
  const unfinished = `${path}.${randomBytes(6).toString('hex')}`
  try {
    await writeFile(unfinished, `${JSON.stringify(installation)}\n`, { mode: 0o600, flag: 'wx' })
    await rename(unfinished, path)
  } catch (error) {
    await rm(unfinished, { force: true })
    throw error
  }
}
