import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ConfigError, findConfig, loadConfig } from './config.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-config-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function faultOf(name: string, source: string | null): Promise<ConfigError> {
  const path = join(folder, name)
  if (source !== null) await writeFile(path, source)
  const error: unknown = await loadConfig(path).catch((error: unknown) => error)
  if (!(error instanceof ConfigError)) throw new Error('the config was loaded')
  return error
}

test.for([
  { fault: 'missing', name: 'absent.mjs', source: null, says: 'there is no config file' },
  { fault: 'no_default', name: 'named.mjs', source: 'export const config = {}', says: 'export default' },
  { fault: 'not_a_config', name: 'empty.mjs', source: 'export default {}', says: 'no setup function' },
  { fault: 'throws', name: 'throws.mjs', source: 'throw new Error("no such vendor")', says: 'no such vendor' },
  { fault: 'throws', name: 'syntax.mjs', source: 'export default {', says: 'cannot be loaded' },
  {
    fault: 'throws',
    name: 'import.mjs',
    source: 'import "a-package-that-is-not-there"',
    says: 'a-package-that-is-not-there',
  },
])('a config with the fault $fault is explained: $name', async ({ fault, name, source, says }) => {
  const error = await faultOf(name, source)
  expect(error).toMatchObject({ fault, message: expect.stringContaining(says) })
  expect(error.message).toContain(name)
})

test('a folder is no config', async () => {
  await expect(loadConfig(folder)).rejects.toMatchObject({ fault: 'not_a_file' })
})

test('a config is found by name, and what it exports is what is loaded', async () => {
  await expect(findConfig(folder)).rejects.toMatchObject({
    fault: 'missing',
    message: expect.stringContaining('--config'),
  })
  await writeFile(join(folder, 'bailiff.config.mjs'), 'export default { setup: async () => ({ tools: [] }) }')
  expect(await loadConfig(await findConfig(folder))).toStrictEqual({ setup: expect.any(Function) })
})
