import { embeddedEngine, type EngineDatabase } from '../src/engines/embedded/engine.ts'
import type { DurableEngine } from '../src/runs/engine.ts'
import type { EngineSceneFactory } from '../src/testing/engine-suite.ts'
import type { Logger } from '../src/tools/invoker.ts'
import { testDatabase, type TestDatabase } from './setup/database.ts'

const CONCURRENCY = 3
export const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** Where the queue of a test database lives. */
export function engineDatabase({ database, url }: TestDatabase): EngineDatabase {
  if (url !== null) return { dialect: 'postgres', connectionString: url }
  if (!('raw' in database)) throw new Error('not an embedded database')
  return { dialect: 'pglite', raw: database.raw } as EngineDatabase
}

/** So many engines on a database of their own, hurried where hurry shows nothing else. */
export function embeddedScene(count: number): EngineSceneFactory {
  return async () => {
    const db = await testDatabase()
    const database = engineDatabase(db)
    const made: DurableEngine[] = []
    const make = (): DurableEngine => {
      const engine = embeddedEngine({
        database,
        logger: SILENT,
        concurrency: CONCURRENCY,
        sweepMs: 100,
        backoffMs: 0,
      })
      made.push(engine)
      return engine
    }
    return {
      engines: Array.from({ length: count }, make),
      another: async () => make(),
      concurrency: CONCURRENCY,
      tickS: 1,
      now: () => new Date(),
      async close() {
        await Promise.all(made.map((engine) => engine.stop(1_000)))
        await db.close()
      },
    }
  }
}
