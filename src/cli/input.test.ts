import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readInput } from './input.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'bailiff-input-'))
})
afterAll(() => rm(folder, { recursive: true }))

async function input(name: string, text: string): Promise<unknown> {
  await writeFile(join(folder, name), text)
  return readInput(join(folder, name), 'leads')
}

test('rows of a CSV file stand under the given name, JSON stands as it is', async () => {
  expect(await input('leads.csv', 'name,email\nJo,jo@acme.test\n')).toStrictEqual({
    leads: [{ name: 'Jo', email: 'jo@acme.test' }],
  })
  expect(await input('any.JSON', '\uFEFF[1, "two"]')).toStrictEqual([1, 'two'])
})

test.for([
  ['broken.csv', 'name,email\nJo\n', 'line 2'],
  ['broken.json', '{"a":', 'not valid JSON'],
  ['leads.xlsx', 'x', 'neither a .csv nor a .json'],
] as const)('%s is refused with the reason', async ([name, text, reason]) => {
  await expect(input(name, text)).rejects.toMatchObject({ exitCode: 2, message: expect.stringContaining(reason) })
})

test('a file that is not there is named', async () => {
  await expect(readInput(join(folder, 'none.json'), 'leads')).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining('there is no file'),
  })
  await expect(readInput(join(folder, 'none.csv'), 'leads')).rejects.toMatchObject({ exitCode: 2 })
})
