import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('..', import.meta.url))

test('examples/own-loop checks itself, through the public names of the package', async () => {
  const { stdout } = await run(process.execPath, ['--conditions=bailiff:source', 'examples/own-loop/main.ts'], {
    cwd: ROOT,
  })
  expect(stdout).toContain('posted once')
})
