// Runs on whatever Node the machine has, before Node 24 from the lockfile is there: plain JavaScript, no imports from node_modules.
// Installs only when the installed tree does not match the lockfile, so that a second start costs nothing.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const lockfile = join(root, 'package-lock.json')
const marker = join(root, 'node_modules', '.bailiff-lock')

const wanted = createHash('sha256').update(readFileSync(lockfile)).digest('hex')
const installed = existsSync(marker) ? readFileSync(marker, 'utf8') : ''

if (installed !== wanted) {
  console.log('bailiff: installing the locked dependencies (once)')
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: root,
    stdio: 'inherit',
    shell: process.platform === 'win32',
  })
  writeFileSync(marker, wanted)
}
