/** From the quietest to the one that says most. */
export const LOG_LEVELS = ['silent', 'error', 'warn', 'info'] as const

export type LogLevel = (typeof LOG_LEVELS)[number]
