import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
const config = fileURLToPath(new URL('../../examples/outreach/bailiff.config.ts', import.meta.url))

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-vendors-'))
})
afterAll(() => rm(folder, { recursive: true }))

interface Ran {
  readonly code: number
  readonly out: string
  readonly err: string
}

/** `bailiff vendors arithmetic` on the demo's config, unless another one is named. */
function arithmetic(...args: readonly string[]): Promise<Ran> {
  const all = ['--conditions=bailiff:source', main, 'vendors', 'arithmetic', '--config', config, ...args]
  return new Promise((resolve) => {
    execFile(process.execPath, all, { env: { PATH: process.env['PATH'] } }, (error, out, err) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, out, err })
    })
  })
}

describe('R31 the arithmetic of the demo’s vendor accounts', { timeout: 120_000 }, () => {
  test('prints what each account is reached by, and fits on one server', async () => {
    const { code, out } = await arithmetic()
    expect(code).toBe(0)
    expect(out).toMatch(/exa +.*interactive: \d+ runs × \d+ \(prospect\).* 50 +fits/)
  })

  test('reaches no further on many, since the limit of a lane is one for all of them', async () => {
    const [one, many] = await Promise.all([arithmetic('--json'), arithmetic('--processes', '20', '--json')])
    const vendorsOf = ({ out }: Ran): unknown => (JSON.parse(out) as { vendors: unknown }).vendors
    expect([many.code, vendorsOf(many)]).toEqual([0, vendorsOf(one)])
  })

  test('fails, and says which account takes less, where its lanes are wider and it runs on many', async () => {
    const wider = join(folder, 'bailiff.config.mjs')
    await writeFile(
      wider,
      `import config from ${JSON.stringify(pathToFileURL(config).href)}
       export default { ...config, setup: async (lent) => ({ ...(await config.setup(lent)), lanes: { interactive: 160 } }) }`,
    )
    const { code, out, err } = await arithmetic('--config', wider, '--processes', '20', '--json')
    expect(code).toBe(1)
    expect(JSON.parse(out)).toMatchObject({
      processes: 20,
      vendors: expect.arrayContaining([expect.objectContaining({ vendor: 'exa', limit: 50, verdict: 'over' })]),
    })
    expect(err).toContain('more calls can reach exa')
  })

  test.each(['0', '1.5', 'many'])('takes no %s processes', async (processes) => {
    expect(await arithmetic('--processes', processes)).toMatchObject({ code: 2, out: '' })
  })
})
