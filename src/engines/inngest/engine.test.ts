import { describe, expect, test } from 'vitest'
import { InngestExecutor } from '../../../test/inngest/executor.ts'
import type { EngineSceneFactory } from '../../testing/engine-suite.ts'
import { engineSuite } from '../../testing/engine-suite.ts'
import { inngestEngine, type InngestEngine } from './engine.ts'

const CONCURRENCY = 3
const SILENT = { info: () => undefined, warn: () => undefined, error: () => undefined }
const SIGNING_KEY = `signkey-test-${'ab'.repeat(32)}`

const scene =
  (count: number): EngineSceneFactory =>
  async () => {
    const executor = new InngestExecutor({
      url: 'https://bailiff.test/api/inngest',
      signingKey: SIGNING_KEY,
    })
    const make = (): InngestEngine => {
      const engine = inngestEngine({
        signingKey: SIGNING_KEY,
        eventKey: 'event-key',
        baseUrl: 'https://inngest.test',
        fetch: executor.fetch,
        concurrency: CONCURRENCY,
        logger: SILENT,
      })
      return Object.assign(engine, { start: synced(executor, engine) })
    }
    return {
      engines: Array.from({ length: count }, make),
      another: async () => make(),
      concurrency: CONCURRENCY,
      tickS: 60,
      now: () => executor.now(),
      pump: () => executor.pump(),
      close: async () => undefined,
    }
  }

/** A deployment tells Inngest about each process that it starts. */
function synced(executor: InngestExecutor, engine: InngestEngine): InngestEngine['start'] {
  const start = engine.start.bind(engine)
  return async (work) => {
    await start(work)
    await executor.sync(engine.handler)
  }
}

describe('Inngest, by the in-process executor', () => {
  test.for(engineSuite)('$name', (one) => expect(one.run(scene(1))).resolves.toBeUndefined())
})

describe('Inngest with three processes', () => {
  test.for(engineSuite)('$name', (one) => expect(one.run(scene(3))).resolves.toBeUndefined())
})
