import type { Observer } from '../observing/observer.ts'

export interface Tracing {
  readonly observer: Observer
  /** Sends what is left. */
  shutdown(): Promise<void>
}

/** OTEL_EXPORTER_OTLP_ENDPOINT asks for traces, and a package that makes them is not installed. */
export class TracingUnavailable extends Error {
  override readonly name = 'TracingUnavailable'
  constructor(cause: unknown) {
    super(
      'OTEL_EXPORTER_OTLP_ENDPOINT is set and the packages of OpenTelemetry are not installed; run ' +
        'npm install @opentelemetry/api @opentelemetry/sdk-trace @opentelemetry/resources @opentelemetry/context-async-hooks @opentelemetry/exporter-trace-otlp-http, or unset it',
      { cause },
    )
  }
}

/**
 * Exports spans as the variables of OpenTelemetry say: `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME`,
 * `OTEL_RESOURCE_ATTRIBUTES`. OTLP over HTTP in JSON, which every collector takes. A program that brings an SDK of its own
 * uses `bailiff/opentelemetry` instead.
 * @throws TracingUnavailable
 */
export async function startTracing(): Promise<Tracing> {
  const { api, trace, resources, hooks, otlp } = await packages()
  const { openTelemetry, spanIds } = await import('../opentelemetry/index.ts')
  const provider = new trace.TracerProvider({
    resource: resources
      .defaultResource()
      .merge(resources.resourceFromAttributes({ 'service.name': 'bailiff' }))
      .merge(resources.detectResources({ detectors: [resources.envDetector] })),
    idGenerator: spanIds(new trace.RandomIdGenerator()),
    spanProcessors: [new trace.BatchSpanProcessor({ exporter: new otlp.OTLPTraceExporter() })],
  })
  // False when somebody else set one, which serves as well.
  const manager = new hooks.AsyncLocalStorageContextManager().enable()
  if (!api.context.setGlobalContextManager(manager)) manager.disable()
  return {
    observer: openTelemetry({ tracer: provider.getTracer('bailiff') }),
    shutdown: () => provider.shutdown(),
  }
}

async function packages() {
  try {
    return {
      api: await import('@opentelemetry/api'),
      trace: await import('@opentelemetry/sdk-trace'),
      resources: await import('@opentelemetry/resources'),
      hooks: await import('@opentelemetry/context-async-hooks'),
      otlp: await import('@opentelemetry/exporter-trace-otlp-http'),
    }
  } catch (error) {
    throw new TracingUnavailable(error)
  }
}
