import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Outcome {
  readonly code: number
  readonly lastLine: string
}

/** Runs a project of its own in a child process. */
function run(files: Readonly<Record<string, string>>, options = ''): Promise<Outcome> {
  const parent = join(root, 'node_modules/.cache/bailiff')
  mkdirSync(parent, { recursive: true })
  const folder = mkdtempSync(join(parent, 'closing-line-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const reporter = JSON.stringify(join(root, 'test/setup/closing-line.ts'))
  writeFileSync(
    join(folder, 'vitest.config.ts'),
    `import { ClosingLine } from ${reporter}\nexport default { test: { reporters: ['default', new ClosingLine()], ${options} } }\n`,
  )
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  return new Promise((resolve) => {
    execFile(process.execPath, [vitest, 'run', '--root', folder], (error, stdout) => {
      const code = typeof error?.code === 'number' ? error.code : 0
      resolve({ code, lastLine: stdout.trimEnd().split('\n').at(-1) ?? '' })
    })
  })
}

const PASSING = `import { expect, test } from 'vitest'\ntest('a', () => expect(1).toBe(1))\ntest('b', () => expect(2).toBe(2))\n`

test('counts what passed', async () => {
  expect(await run({ 'a.test.ts': PASSING })).toStrictEqual({ code: 0, lastLine: '2 passed, 0 failed' })
})

test('counts what failed and was skipped, files that cannot be read and hooks that throw', async () => {
  const failing = `import { expect, test } from 'vitest'\ntest('c', () => expect(1).toBe(2))\ntest.skip('d', () => {})\n`
  const broken = `import './nowhere.ts'\n`
  const hook = `import { afterAll, describe, test } from 'vitest'\ndescribe('e', () => { afterAll(() => { throw new Error('hook') }); test('f', () => {}) })\n`
  const outcome = await run({ 'a.test.ts': PASSING, 'b.test.ts': failing, 'c.test.ts': broken, 'd.test.ts': hook })
  expect(outcome).toStrictEqual({ code: 1, lastLine: '3 passed, 3 failed, 1 skipped' })
})

test('counts an error that belongs to no test', async () => {
  const unhandled = `${PASSING}void Promise.reject(new Error('unheard'))\n`
  const outcome = await run({ 'a.test.ts': unhandled })
  expect(outcome).toStrictEqual({ code: 1, lastLine: '2 passed, 1 failed' })
})

test('a run whose setup fails has failed, whatever else it says', async () => {
  const setup = `export default function () { console.log('noise'); throw new Error('no database') }\n`
  const outcome = await run({ 'a.test.ts': PASSING, 'setup.ts': setup }, `globalSetup: './setup.ts'`)
  expect(outcome.code).toBe(1)
  expect(outcome.lastLine).toBe('0 passed, 1 failed')
})

test('a failed run ends with 1, even where something else ends the process with 0', async () => {
  const setup = `export default function () { process.once('beforeExit', () => process.exit(0)) }\n`
  const failing = `import { expect, test } from 'vitest'\ntest('c', () => expect(1).toBe(2))\n`
  const outcome = await run({ 'a.test.ts': failing, 'setup.ts': setup }, `globalSetup: './setup.ts'`)
  expect(outcome).toStrictEqual({ code: 1, lastLine: '0 passed, 1 failed' })
})

test('a run without tests has failed', async () => {
  expect(await run({})).toStrictEqual({ code: 1, lastLine: '0 passed, 1 failed' })
})
