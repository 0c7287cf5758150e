import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Core } from '../core.ts'
import type { RunManager } from '../runs/manager.ts'
import type { Identity, IdentityStore } from '../storage/identity-store.ts'
import type { AttemptLimiter } from './attempts.ts'

/** What the app is built from. */
export interface AppDependencies {
  readonly core: Core
  readonly runs: RunManager
  readonly identities: IdentityStore
  /** What the pages tell about this server. */
  readonly about: About
  readonly hosting: Hosting
  /** Ends live streams when the server stops. */
  readonly closing: AbortSignal
}

export interface About {
  /** The default model. */
  readonly model: string
  readonly scripted: boolean
  readonly database: 'pglite' | 'postgres'
}

export interface Hosting {
  /** Listening on this machine alone: only its own names may be asked for, or a web page could rebind its name to us. */
  readonly loopback: boolean
  readonly trustProxy: boolean
  /** Where browsers reach the server, without a path; never taken from a request. */
  readonly publicUrl: string
  /** Carries the port: browsers share cookies between the ports of a host. */
  readonly cookieName: string
}

export interface AppEnv {
  Bindings: Partial<HttpBindings>
  Variables: {
    identity: Identity
    /** A browser session rather than a key in a header. */
    viaCookie: boolean
  }
}

export type App = OpenAPIHono<AppEnv>

/** What routes are built from. */
export interface RouteDependencies extends AppDependencies {
  readonly limiter: AttemptLimiter
}
