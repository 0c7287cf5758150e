import { inngestEngine, type InngestEngine, type InngestEngineOptions } from '../../src/engines/inngest/index.ts'
import type { EngineWork } from '../../src/runs/engine.ts'
import type { Logger } from '../../src/tools/invoker.ts'
import { InngestExecutor } from './executor.ts'

export const SIGNING_KEY = `signkey-test-${'ab'.repeat(32)}`
export const SERVE_URL = 'https://bailiff.test/api/inngest'
export const SILENT: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** A server with nothing on it. */
export function executor(start?: Date, intoMinuteMs?: number): InngestExecutor {
  return new InngestExecutor({
    url: SERVE_URL,
    signingKey: SIGNING_KEY,
    ...(start === undefined ? {} : { start }),
    ...(intoMinuteMs === undefined ? {} : { intoMinuteMs }),
  })
}

/** An engine that talks to it. */
export function engineFor(server: InngestExecutor, options: Partial<InngestEngineOptions> = {}): InngestEngine {
  return inngestEngine({
    signingKey: SIGNING_KEY,
    eventKey: 'event-key',
    baseUrl: 'https://inngest.test',
    fetch: server.fetch,
    logger: SILENT,
    ...options,
  })
}

export interface Served {
  readonly server: InngestExecutor
  readonly engine: InngestEngine
}

/** A started engine whose functions the server knows; work that is not given is idle. */
export async function served(work: Partial<EngineWork> = {}, start?: Date): Promise<Served> {
  const server = executor(start)
  const engine = engineFor(server)
  await engine.start({
    advance: () => Promise.resolve({ kind: 'idle' }),
    sweep: () => Promise.resolve([]),
    look: () => Promise.resolve({ organizationId: 'acme', lane: 'interactive', waitsUntil: null }),
    gaveUp: () => Promise.resolve(),
    jobs: {},
    crons: [],
    ...work,
  })
  await server.sync(engine.handler)
  return { server, engine }
}
