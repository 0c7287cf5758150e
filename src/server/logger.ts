import { pino, stdSerializers } from 'pino'
import type { Logger } from '../tools/invoker.ts'

export type LogLevel = 'error' | 'warn' | 'info' | 'silent'

/** JSON lines on standard error, so that standard output stays for answers. */
export function serverLogger(level: LogLevel): Logger {
  const log = pino(
    { level, base: null, serializers: { error: stdSerializers.err, cause: stdSerializers.err } },
    pino.destination({ fd: 2, sync: true }),
  )
  return {
    info: (message, fields) => log.info(fields ?? {}, message),
    warn: (message, fields) => log.warn(fields ?? {}, message),
    error: (message, fields) => log.error(fields ?? {}, message),
  }
}
