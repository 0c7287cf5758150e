import { randomBytes } from 'node:crypto'
import { readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'

const ServerFileSchema = z.object({
  url: z.url({ protocol: /^https?$/ }),
  pid: z.int().positive(),
  apiKey: z.string().min(1),
  startedAt: z.iso.datetime(),
})

/** How the command line finds the server that runs on a data folder, and a key of its own for it. */
export type ServerFile = z.output<typeof ServerFileSchema>

export function serverFilePath(dataDir: string): string {
  return join(dataDir, 'server.json')
}

/** Readable by the owner alone: it holds a key. Written whole or not at all. */
export async function writeServerFile(dataDir: string, file: ServerFile): Promise<void> {
  const path = serverFilePath(dataDir)
  const unfinished = `${path}.${randomBytes(6).toString('hex')}`
  await writeFile(unfinished, `${JSON.stringify(file)}\n`, { mode: 0o600, flag: 'wx' })
  await rename(unfinished, path)
}

/** Null when there is none, or none that can be read. */
export async function readServerFile(dataDir: string): Promise<ServerFile | null> {
  try {
    const parsed = ServerFileSchema.safeParse(JSON.parse(await readFile(serverFilePath(dataDir), 'utf8')))
    return parsed.success ? parsed.data : null
  } catch {
    return null
  }
}

/** Leaves the file of a server that was started on the same folder meanwhile. */
export async function removeServerFile(dataDir: string, own: ServerFile): Promise<void> {
  const stored = await readServerFile(dataDir)
  if (stored?.apiKey === own.apiKey) await rm(serverFilePath(dataDir), { force: true })
}
