import { CommanderError } from 'commander'
import { CommandFailed, EXIT, type ExitCode } from './exit-codes.ts'

interface Failure {
  readonly message: string
  readonly remedy: string | null
  readonly exitCode: ExitCode
}

/** By name, because the classes live in modules that are loaded only when a command needs them. */
const USAGE_ERRORS: readonly string[] = ['SettingsError', 'ConfigError']

/** What they say is written for a person; a stack would only hide it. */
const EXPLAINED_ERRORS: readonly string[] = [
  'ListenError',
  'PlatformError',
  'TracingUnavailable',
  'VaultKeyMissing',
  'DataFolderInUse',
  'DatabaseUnavailable',
  'DatabasesDiffer',
  'MigrationRefused',
  'RegistryError',
  'ValidationError',
]

/** Says on standard error what is wrong and what to do; answers the exit code. */
export function reportFailure(error: unknown, json: boolean): ExitCode {
  // Commander has said what it has to say.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  const { message, remedy, exitCode } = failureOf(error)
  const text = json
    ? JSON.stringify({ error: { message, remedy, exitCode } })
    : [`error: ${message}`, ...(remedy === null ? [] : [remedy])].join('\n')
  process.stderr.write(`${text}\n`)
  return exitCode
}

function failureOf(error: unknown): Failure {
  if (error instanceof CommandFailed) return error
  if (!(error instanceof Error)) return { message: String(error), remedy: null, exitCode: EXIT.failed }
  const { name, message } = error
  if (USAGE_ERRORS.includes(name)) return { message, remedy: null, exitCode: EXIT.usage }
  if (EXPLAINED_ERRORS.includes(name)) return { message, remedy: null, exitCode: EXIT.failed }
  // A bug, or a deployment's own code: here the stack is what helps.
  return { message: error.stack ?? message, remedy: null, exitCode: EXIT.failed }
}
