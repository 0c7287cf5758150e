export { openTelemetry, type OpenTelemetryOptions } from './open-telemetry.ts'
export { spanIds, type IdGenerator } from './span-ids.ts'
