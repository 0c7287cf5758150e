#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { Command, CommanderError, Option } from 'commander'
import { contextOf, type CommonOptions, type Context } from './context.ts'
import { CommandFailed, EXIT, EXIT_CODES_HELP } from './exit-codes.ts'

// What a command needs is loaded when it runs, so that --help does not wait for a database driver.

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

const program = new Command('bailiff')
  .description(
    'Governed tool calls for AI agents: an agent proposes, Bailiff decides, executes once and bounds the answer.',
  )
  .version(version)
  .showHelpAfterError('(bailiff --help lists every command)')
  .addHelpText('after', `\n${EXIT_CODES_HELP}`)
  .exitOverride()

/** A command with the options that all of them take. */
function command(parent: Command, usage: string, description: string): Command {
  return parent
    .command(usage)
    .description(description)
    .option('--json', 'machine-readable answer on standard output')
    .exitOverride()
}

/** For commands that talk to a running server. */
function remote(parent: Command, usage: string, description: string): Command {
  return command(parent, usage, description).option(
    '--url <url>',
    'server to talk to, with BAILIFF_API_KEY; without it, the one on the data folder',
  )
}

function group(name: string, description: string): Command {
  return program.command(name).description(description).exitOverride()
}

command(program, 'start', 'start the server: runs, approvals and the console')
  .option('--config <file>', 'config file; without it, bailiff.config.ts, .js or .mjs in this folder')
  .addOption(
    new Option('--log <level>', 'log lines on standard error')
      .choices(['silent', 'error', 'warn', 'info'])
      .default('warn'),
  )
  .action(async (options: CommonOptions & { config?: string; log: 'silent' | 'error' | 'warn' | 'info' }) => {
    await (await import('./commands/start.ts')).start(contextOf(options), options)
  })

program.parseAsync().catch((error: unknown) => {
  process.exitCode = report(error)
})

export type { Context }

/** One line that says what is wrong and one that says what to do; the exit code for scripts. */
function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  const { message, remedy, exitCode } = failureOf(error)
  if (process.argv.includes('--json'))
    process.stderr.write(`${JSON.stringify({ error: { message, remedy, exitCode } })}\n`)
  else process.stderr.write(`error: ${message}\n${remedy === null ? '' : `${remedy}\n`}`)
  return exitCode
}

interface Failure {
  readonly message: string
  readonly remedy: string | null
  readonly exitCode: number
}

/** By name, because the classes live in modules that are loaded only when a command needs them. */
const USAGE_ERRORS: readonly string[] = ['SettingsError', 'ConfigError']
const EXPECTED_ERRORS: readonly string[] = [
  'ListenError',
  'PlatformError',
  'DataFolderInUse',
  'DatabaseUnavailable',
  'MigrationRefused',
  'RegistryError',
  'ValidationError',
]

function failureOf(error: unknown): Failure {
  if (error instanceof CommandFailed) return error
  if (!(error instanceof Error)) return { message: String(error), remedy: null, exitCode: EXIT.failed }
  if (USAGE_ERRORS.includes(error.name)) return { message: error.message, remedy: null, exitCode: EXIT.usage }
  if (EXPECTED_ERRORS.includes(error.name)) return { message: error.message, remedy: null, exitCode: EXIT.failed }
  // A bug, or a deployment's own code: the stack is what helps.
  return { message: error.stack ?? error.message, remedy: null, exitCode: EXIT.failed }
}
