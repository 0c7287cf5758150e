import { findConfig, loadConfig } from '../../server/config.ts'
import type { LogLevel } from '../../server/log-level.ts'
import { serverLogger } from '../../server/logger.ts'
import { startPlatform, type Platform } from '../../server/platform.ts'
import { ListenError } from '../../server/listen.ts'
import { readSettings, type Settings } from '../../server/settings.ts'
import { DataFolderInUse } from '../../storage/errors.ts'
import { runningServer } from '../client.ts'
import type { Context } from '../context.ts'
import { CommandFailed, EXIT } from '../exit-codes.ts'

export interface StartOptions {
  readonly config?: string
  readonly log?: LogLevel
}

/** A terminal's Ctrl-C reaches us once itself and once more through npm, a moment later. That is one Ctrl-C. */
const ONE_PRESS_MS = 500

/** Runs until a signal ends it. */
export async function start(context: Context, options: StartOptions): Promise<void> {
  const settings = readSettings(context.environment)
  const config = await loadConfig(options.config ?? (await findConfig(process.cwd())))
  const interrupted = interruption(context)
  const announce = (line: string): void => (context.json ? undefined : context.out(line))
  const platform = await open(settings, {
    settings,
    config,
    announce,
    logger: serverLogger(options.log ?? settings.logLevel ?? 'warn'),
  })
  if (context.json)
    context.out(
      JSON.stringify({ url: platform.url, console: platform.consoleUrl, apiKey: platform.apiKey, pid: process.pid }),
    )
  await interrupted
  context.note('stopping: letting calls in flight settle (Ctrl-C again to stop at once)')
  await platform.stop()
  context.note('stopped')
}

async function open(settings: Settings, options: Parameters<typeof startPlatform>[0]): Promise<Platform> {
  try {
    return await startPlatform(options)
  } catch (error) {
    if (!(error instanceof DataFolderInUse || error instanceof ListenError)) throw error
    const running = await runningServer(settings.dataDir)
    if (running === null) throw error
    throw new CommandFailed(
      EXIT.failed,
      `a server runs on this data folder already: ${running.url} (process ${running.pid})`,
      'stop it first, or choose another folder with BAILIFF_DATA_DIR and another port with BAILIFF_PORT',
    )
  }
}

/** Resolves at the first SIGINT or SIGTERM; a later one ends the process where it stands. */
function interruption(context: Context): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  let first: number | null = null
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const now = Date.now()
      first ??= now
      if (now - first > ONE_PRESS_MS) {
        context.note('stopped at once; what was in flight is taken up at the next start')
        process.exit(EXIT.failed)
      }
      resolve()
    })
  }
  return promise
}
