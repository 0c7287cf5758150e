import type { DurableEngine } from './engine.ts'

const nothing = (): Promise<void> => Promise.resolve()

/** Wakes nobody: for a process that lives as long as one request, where `advance` does what is due. */
export const NO_ENGINE: DurableEngine = {
  name: 'none',
  start: nothing,
  wake: nothing,
  enqueue: (name) => Promise.reject(new Error(`nobody does the job ${name}: this process has no engine`)),
  stop: nothing,
}
