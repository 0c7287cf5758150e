import { pino } from 'pino'
import type { LogLevel } from './log-level.ts'
import type { Logger } from '../tools/invoker.ts'

/** JSON lines on standard error, so that standard output stays for answers. */
export function serverLogger(level: LogLevel): Logger {
  const log = pino(
    {
      level,
      base: null,
      serializers: { error: (error: unknown) => faultOf(error), cause: (error: unknown) => faultOf(error) },
    },
    pino.destination({ fd: 2, sync: true }),
  )
  return {
    info: (message, fields) => log.info(fields ?? {}, message),
    warn: (message, fields) => log.warn(fields ?? {}, message),
    error: (message, fields) => log.error(fields ?? {}, message),
  }
}

/** Characters kept of a message; a provider's may quote the whole conversation. */
const MAX_MESSAGE = 500

/** Causes of causes that are followed. */
const MAX_CAUSES = 3

/**
 * What an operator needs of an error and nothing it carries besides: errors of providers hold requests, answers and
 * headers, and those hold people's data and credentials.
 */
function faultOf(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return typeof error === 'object' ? null : error
  const code: unknown = Reflect.get(error, 'code') ?? Reflect.get(error, 'statusCode')
  const frames = error.stack?.split('\n').filter((line) => line.trimStart().startsWith('at '))
  return {
    name: error.name,
    message: error.message.slice(0, MAX_MESSAGE),
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    stack: frames?.slice(0, 8),
    ...(error.cause === undefined || depth >= MAX_CAUSES ? {} : { cause: faultOf(error.cause, depth + 1) }),
  }
}
