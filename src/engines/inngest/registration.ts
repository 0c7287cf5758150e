import { backoffMs } from '../../runs/engine-work.ts'
import type { Logger } from '../../tools/invoker.ts'

const FIRST_MS = 2_000

/** Tells Inngest which functions there are, again and again until it has heard: it may start after us. */
export function keepRegistered(register: () => Promise<Response>, logger: Logger): { stop(): void } {
  let timer: NodeJS.Timeout | null = null
  let stopped = false
  let failures = 0
  const attempt = async (): Promise<void> => {
    const problem = await problemOf(register)
    if (problem === null) return logger.info('the functions are registered at Inngest')
    failures += 1
    if (failures === 1) logger.warn('the functions could not be registered at Inngest; it is tried again', { problem })
    if (!stopped) timer = setTimeout(() => void attempt(), backoffMs(FIRST_MS, failures))
  }
  void attempt()
  return {
    stop() {
      stopped = true
      if (timer !== null) clearTimeout(timer)
    },
  }
}

async function problemOf(register: () => Promise<Response>): Promise<string | null> {
  try {
    const { ok, status } = await register()
    return ok ? null : `status ${status}`
  } catch (error) {
    return error instanceof Error ? error.name : 'a fault'
  }
}
