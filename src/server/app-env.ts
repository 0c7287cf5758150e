import type { HttpBindings } from '@hono/node-server'
import type { OpenAPIHono } from '@hono/zod-openapi'
import type { Core } from '../core.ts'
import type { LaneControl } from '../runs/lane-control.ts'
import type { RunManager } from '../runs/manager.ts'
import type { Identity, IdentityStore } from '../storage/identity-store.ts'
import type { AttemptLimiter } from './attempts.ts'
import type { Readiness } from './readiness.ts'

/** What the app is built from. */
export interface AppDependencies {
  readonly core: Core
  readonly runs: RunManager
  readonly lanes: LaneControl
  readonly identities: IdentityStore
  /** What the pages tell about this server. */
  readonly about: About
  readonly hosting: Hosting
  /** Whether requests should be sent here; that the database answers is all there is to ask when absent. */
  readonly readiness?: Pick<Readiness, 'report'>
  /** Absent serves no metrics. */
  readonly metrics?: MetricsPage
  /** Answers Inngest, which signs what it asks. Absent with another engine. */
  readonly inngest?: (request: Request) => Promise<Response>
  /** Ends live streams when the server stops. */
  readonly closing: AbortSignal
}

/** What a scraper is served. */
export interface MetricsPage {
  /** In the text format of Prometheus. */
  readonly render: () => Promise<{ readonly contentType: string; readonly text: string }>
  /** Lets in whoever has it, beside administrators of the organization. */
  readonly token: string | null
  /** The deployment's own: the figures are of all organizations. */
  readonly organizationId: string
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
