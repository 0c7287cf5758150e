/** What the command line exits with. Scripts rely on these numbers. */
export const EXIT = {
  /** Done. A run that waits for a person is no failure. */
  ok: 0,
  /** It was tried and failed: a run that did not complete, a check that found a fault, an error of the server. */
  failed: 1,
  /** The command cannot be carried out as written: unknown command or option, missing file, invalid input or setting. */
  usage: 2,
  /** No server answers. */
  noServer: 3,
  /** The server refused: not allowed, decided already, gone stale. */
  refused: 4,
  /** The server knows nothing of that name or id. */
  notFound: 5,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Printed under `--help`. */
export const EXIT_CODES_HELP = [
  'Exit codes:',
  '  0  done (a run that waits for a person counts as done)',
  '  1  failed: the run did not complete, a check found a fault, the server had an error',
  '  2  usage: unknown command or option, missing file, invalid input or setting',
  '  3  no server answers',
  '  4  refused: not allowed, decided already, or gone stale',
  '  5  not found: no such run, approval, tool or definition',
].join('\n')

/** Ends a command with a message for a person and a code for a script. */
export class CommandFailed extends Error {
  override readonly name = 'CommandFailed'
  readonly exitCode: ExitCode
  /** What to do about it. */
  readonly remedy: string | null
  constructor(exitCode: ExitCode, message: string, remedy: string | null = null) {
    super(message)
    this.exitCode = exitCode
    this.remedy = remedy
  }
}
