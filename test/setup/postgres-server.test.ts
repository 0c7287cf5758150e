import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { type PostgresServer, startPostgres } from './postgres-server.ts'

const script = fileURLToPath(new URL('./postgres-server.ts', import.meta.url))

async function dataFolder(url: string): Promise<string> {
  const client = new Client({ connectionString: `${url}postgres` })
  await client.connect()
  const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory')
  await client.end()
  return rows[0]?.data_directory ?? ''
}

async function start(): Promise<PostgresServer> {
  const server = await startPostgres()
  onTestFinished(() => server.stop())
  return server
}

test('a server goes with its folder when it is stopped', async () => {
  const server = await start()
  const folder = await dataFolder(server.url)
  expect(existsSync(folder)).toBe(true)
  await server.stop()
  expect(existsSync(folder)).toBe(false)
  await expect(dataFolder(server.url)).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

// Three servers, one after the other; the limit is there for one that never answers.
test(
  'what a killed run left behind is removed by the next, and nothing of a living one',
  { timeout: 180_000 },
  async () => {
    const living = await start()
    const code = `import { startPostgres } from ${JSON.stringify(script)}; process.stdout.write((await startPostgres()).url)`
    const killed = spawn(process.execPath, ['--conditions=bailiff:source', '--input-type=module', '-e', code])
    const words = killed.stderr.setEncoding('utf8').toArray()
    const ended = once(killed, 'exit').then(async () => Promise.reject(new Error((await words).join(''))))
    const url = String((await Promise.race([once(killed.stdout, 'data'), ended]))[0])
    ended.catch(() => undefined)
    const folder = await dataFolder(url)
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    expect(await dataFolder(url)).toBe(folder)

    await start()
    await expect(dataFolder(url)).rejects.toThrow(/./)
    expect(existsSync(folder)).toBe(false)
    expect(existsSync(await dataFolder(living.url))).toBe(true)
  },
)
