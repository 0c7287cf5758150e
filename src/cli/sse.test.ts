import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { serverEvents, type ServerEvent } from './sse.ts'

async function read(chunks: readonly Uint8Array[]): Promise<ServerEvent[]> {
  const events: ServerEvent[] = []
  for await (const event of serverEvents(ReadableStream.from(chunks))) events.push(event)
  return events
}

const TEXT =
  'event: tree\ndata: {"a":"é👍"}\n\n: still here\n\ndata: one\ndata: two\n\nevent: end\ndata: {}\n\nevent: cut'

test('events are read whole, whatever pieces they come in', async () => {
  const expected = [
    { event: 'tree', data: '{"a":"é👍"}' },
    { event: 'message', data: 'one\ntwo' },
    { event: 'end', data: '{}' },
  ]
  const bytes = new TextEncoder().encode(TEXT)
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
      const edges = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
      const chunks = edges.slice(1).map((end, index) => bytes.slice(edges[index], end))
      expect(await read(chunks)).toStrictEqual(expected)
    }),
    { numRuns: 50 },
  )
})
