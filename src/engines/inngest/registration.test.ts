import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { keepRegistered } from './registration.ts'

const lines: string[] = []
const logger = {
  info: (message: string) => void lines.push(`info: ${message}`),
  warn: (message: string) => void lines.push(`warn: ${message}`),
  error: (message: string) => void lines.push(`error: ${message}`),
}

beforeEach(() => {
  lines.length = 0
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

/** A server that is up from the given request on. */
function serverFrom(first: number) {
  const requests: number[] = []
  return {
    requests,
    register: async (): Promise<Response> => {
      requests.push(Date.now())
      if (requests.length < first && requests.length % 2 === 1) throw new TypeError('connect failed')
      return new Response(null, { status: requests.length < first ? 500 : 200 })
    },
  }
}

test('is tried with growing pauses until the server has heard, warned about once', async () => {
  const server = serverFrom(4)
  keepRegistered(server.register, logger)
  await vi.advanceTimersByTimeAsync(3_600_000)
  const [first = 0, ...later] = server.requests
  expect(later.map((time) => time - first)).toEqual([2_000, 6_000, 14_000])
  expect(lines).toEqual([expect.stringMatching(/^warn: /), expect.stringMatching(/^info: /)])
})

test('ends with the engine', async () => {
  const server = serverFrom(100)
  const registration = keepRegistered(server.register, logger)
  await vi.advanceTimersByTimeAsync(2_000)
  registration.stop()
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect(server.requests).toHaveLength(2)
})
