import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ROOT } from './source-files.ts'

const run = promisify(execFile)
const DOCUMENTS = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md'].concat(
  ['decision-path', 'dependencies', 'errors', 'guarantees'].map((name) => `docs/${name}.md`),
)

/** Inside the project, where its own name resolves to its sources; the folder is not part of the repository. */
let folder: string

beforeAll(async () => {
  const cache = join(ROOT, '.cache')
  await mkdir(cache, { recursive: true })
  folder = await mkdtemp(join(cache, 'readme-'))
  await Promise.all(blocks('README.md').map((code, index) => writeFile(join(folder, `block-${index}.ts`), code)))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

function blocks(path: string): string[] {
  return [...readFileSync(join(ROOT, path), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(
    (match) => match[1] ?? '',
  )
}

async function linesOf(index: number): Promise<string[]> {
  const file = join(folder, `block-${index}.ts`)
  const { stdout } = await run(process.execPath, ['--conditions=bailiff:source', file], { cwd: ROOT })
  return stdout.trim().split('\n')
}

describe('the code in the README', () => {
  test('runs as pasted: the first block waits for a person, refunds and finishes', async () => {
    expect(await linesOf(0)).toEqual(['waiting', "{ kind: 'finished', text: 'Order A1 is refunded.' }"])
  })

  test('runs as pasted: the second block decides by a rule without a database', async () => {
    expect(await linesOf(1)).toEqual(['require_approval'])
  })

  test('is typed: every block compiles against the sources', { timeout: 120_000 }, async () => {
    expect(blocks('README.md').length).toBeGreaterThan(3)
    const config = { extends: relative(folder, join(ROOT, 'tsconfig.json')), include: ['*.ts'] }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
    await writeFile(
      join(folder, 'block-wrong.ts'),
      "import { ok } from 'bailiff'\n\nexport const wrong: number = ok(1)\n",
    )
    const faults = (await compile(folder)).filter((line) => line.includes('block-'))
    // The planted fault shows that the blocks are looked at; faults of the sources are for the type check of the project.
    expect(faults.map((line) => /block-(.+?)\.ts/.exec(line)?.[1])).toEqual(['wrong'])
  })
})

async function compile(project: string): Promise<readonly string[]> {
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  const child = run(process.execPath, [tsc, '-p', project, '--noEmit', '--pretty', 'false'], { cwd: ROOT })
  const { stdout } = await child.catch((error: unknown) => error as { readonly stdout: string })
  return stdout.split('\n').filter((line) => /^\S.*error TS/.test(line))
}

describe('a document', () => {
  test.each(DOCUMENTS)('%s links only to what is there', (path) => {
    const text = readFileSync(join(ROOT, path), 'utf8')
    const targets = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)].map((match) => match[1] ?? '')
    const missing = targets.filter((target) => !existsSync(join(ROOT, dirname(path), target)))
    expect(missing).toEqual([])
  })

  test.each(DOCUMENTS)('%s names only files that exist', (path) => {
    const text = readFileSync(join(ROOT, path), 'utf8')
    const named = [...text.matchAll(/`((?:src|test|simulators|examples|scripts|docs)\/[\w./-]+?)`/g)].map(
      (match) => match[1] ?? '',
    )
    expect(named.filter((file) => !existsSync(join(ROOT, file)))).toEqual([])
  })
})
