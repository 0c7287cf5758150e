import { PassThrough, Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { CommandFailed } from './exit-codes.ts'
import { readSecrets, type SecretField } from './secret-input.ts'

const PASS: SecretField = { name: 'pass', title: 'Password', optional: false }
const TOTP: SecretField = { name: 'totp', title: 'One-time secret', optional: true }

function piped(text: string, fields: readonly SecretField[]) {
  return readSecrets(fields, { input: Readable.from([Buffer.from(text)]), prompts: new PassThrough() })
}

test('one field is piped in as it is, without the line break at its end', async () => {
  expect(await piped('hunter2\n', [PASS])).toEqual({ pass: 'hunter2' })
  expect(await piped(' {"a":1} ', [PASS])).toEqual({ pass: ' {"a":1} ' })
})

test('several fields are piped in as an object', async () => {
  expect(await piped('{"pass":"hunter2"}', [PASS, TOTP])).toEqual({ pass: 'hunter2' })
})

test.each(['hunter2', '["hunter2"]', '{"pass":["hunter2"]}', 'null', '{"pass":"hunter2"'])(
  '%s is refused for several fields, without being repeated',
  async (text) => {
    const error = await piped(text, [PASS, TOTP]).catch((raised: unknown) => raised)
    expect(error).toBeInstanceOf(CommandFailed)
    expect(`${String(error)} ${JSON.stringify(error)}`).not.toContain('hunter2')
  },
)

test('at a terminal each field is asked for by name, and nothing that is typed is shown', async () => {
  const input = Object.assign(new PassThrough(), { isTTY: true })
  const prompts = new PassThrough()
  const shown: string[] = []
  const answers = ['hunter2\r', '\r']
  prompts.on('data', (chunk: Buffer) => {
    shown.push(String(chunk))
    // Typed as soon as it is asked for.
    if (String(chunk).endsWith(': ')) setImmediate(() => input.write(answers.shift() ?? ''))
  })
  expect(await readSecrets([PASS, TOTP], { input, prompts })).toEqual({ pass: 'hunter2' })
  expect(shown.join('')).toBe('Password: \nOne-time secret (leave empty for none): \n')
})

test('a person who interrupts the question connects nothing', async () => {
  const input = Object.assign(new PassThrough(), { isTTY: true })
  const prompts = new PassThrough()
  prompts.once('data', () => setImmediate(() => input.write('hunt\u0003')))
  await expect(readSecrets([PASS], { input, prompts })).rejects.toThrow('nothing was connected')
})
