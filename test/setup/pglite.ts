import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TestProject } from 'vitest/node'

const root = fileURLToPath(new URL('../..', import.meta.url))
const cache = join(root, 'node_modules/.cache/bailiff')
const DAY_MS = 86_400_000

/** Starting from a migrated image takes a third of a second; starting from nothing takes three. */
export default function setup(project: TestProject): void {
  const image = join(cache, `pglite-${fingerprint()}.tar`)
  if (!existsSync(image)) build(image)
  project.provide('dialect', 'pglite')
  project.provide('pgliteImage', image)
}

/** In a process of its own, which gives its half gigabyte back. */
function build(image: string): void {
  mkdirSync(cache, { recursive: true })
  removeOld()
  const unfinished = `${image}.${process.pid}`
  const script = fileURLToPath(new URL('./build-image.ts', import.meta.url))
  execFileSync(process.execPath, ['--conditions=bailiff:source', script, unfinished], { stdio: 'inherit' })
  renameSync(unfinished, image)
}

function fingerprint(): string {
  const hash = createHash('sha256')
  hash.update(readFileSync(join(root, 'node_modules/@electric-sql/pglite/package.json')))
  const migrations = join(root, 'src/storage/migrations')
  for (const file of readdirSync(migrations).sort()) hash.update(file).update(readFileSync(join(migrations, file)))
  return hash.digest('hex').slice(0, 16)
}

function removeOld(): void {
  for (const file of readdirSync(cache)) {
    const path = join(cache, file)
    if (Date.now() - statSync(path).mtimeMs > DAY_MS) rmSync(path, { force: true })
  }
}
