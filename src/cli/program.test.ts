import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { EXIT, EXIT_CODES_HELP } from './exit-codes.ts'
import { buildProgram } from './program.ts'

function leaves(
  command: Command,
  path: readonly string[] = [],
): { readonly path: string; readonly command: Command }[] {
  if (command.commands.length === 0) return [{ path: path.join(' '), command }]
  return command.commands.flatMap((child) => leaves(child, [...path, child.name()]))
}

test('every command is described and takes --json', () => {
  const all = leaves(buildProgram())
  expect(all.map(({ path }) => path)).toStrictEqual([
    'start',
    'migrate',
    'doctor',
    'run',
    'runs list',
    'runs show',
    'runs tree',
    'runs cancel',
    'runs signal',
    'runs retry',
    'runs release',
    'lanes list',
    'lanes pause',
    'lanes resume',
    'lanes limit',
    'approvals list',
    'approvals show',
    'approvals approve',
    'approvals reject',
    'tools list',
    'tools check',
    'tools enable',
    'tools disable',
    'keys list',
    'keys create',
    'keys revoke',
    'connect',
    'connections list',
    'connections reconnect',
    'connections revoke',
    'provider-jobs list',
    'provider-jobs show',
    'provider-jobs unsettled',
    'provider-jobs settle',
    'provider-jobs drops',
    'vault status',
    'vault rotate',
    'vendors arithmetic',
    'dead-letters',
    'erase subject',
    'export',
    'delete-organization',
    'restore hold',
  ])
  for (const { command } of all) {
    expect(command.description()).not.toBe('')
    expect(command.options.map(({ long }) => long)).toContain('--json')
  }
})

test('every exit code is documented', () => {
  for (const code of Object.values(EXIT)) expect(EXIT_CODES_HELP).toMatch(new RegExp(`^ {2}${code}  `, 'm'))
})
