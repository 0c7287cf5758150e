import { embeddedEngine, type EngineDatabase } from '../engines/embedded/engine.ts'
import type * as InngestModule from '../engines/inngest/index.ts'
import type { DurableEngine } from '../runs/engine.ts'
import type { Logger } from '../tools/invoker.ts'
import { SettingsError, type Settings } from './settings.ts'

export interface ChosenEngine {
  readonly engine: DurableEngine
  /** Answers Inngest at /api/inngest; null with the embedded engine. */
  readonly inngest: ((request: Request) => Promise<Response>) | null
}

export interface EngineSurroundings {
  readonly database: EngineDatabase
  readonly logger: Logger
  /** Where the server is reached from outside, without a path. */
  readonly publicUrl: string
}

/** @throws SettingsError when the package of the engine is not installed */
export async function chooseEngine(
  { inngest }: Pick<Settings, 'inngest'>,
  { database, logger, publicUrl }: EngineSurroundings,
): Promise<ChosenEngine> {
  if (inngest === null) return { engine: embeddedEngine({ database, logger }), inngest: null }
  const { inngestEngine } = await loadInngest()
  const { eventKey, signingKey, baseUrl, dev } = inngest
  const engine = inngestEngine({
    ...(eventKey === null ? {} : { eventKey }),
    ...(signingKey === null ? {} : { signingKey }),
    ...(baseUrl === null ? {} : { baseUrl }),
    dev,
    serveUrl: `${publicUrl}/api/inngest`,
    logger,
  })
  return { engine, inngest: engine.handler }
}

// An optional peer dependency: only a deployment that chose it loads it.
async function loadInngest(): Promise<typeof InngestModule> {
  try {
    return await import('../engines/inngest/index.ts')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND')
      throw new SettingsError([
        { variable: 'BAILIFF_ENGINE', message: 'the package of this engine is missing: npm install inngest' },
      ])
    throw error
  }
}
