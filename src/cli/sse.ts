export interface ServerEvent {
  readonly event: string
  readonly data: string
}

/** Reads server-sent events; comments are left out. Ends when the stream does. */
export async function* serverEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true })
    const blocks = rest.split('\n\n')
    rest = blocks.pop() ?? ''
    for (const block of blocks) {
      const event = eventOf(block)
      if (event !== null) yield event
    }
  }
}

function eventOf(block: string): ServerEvent | null {
  const lines = block.split('\n')
  const field = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).replace(/^ /, ''))
  const data = field('data')
  return data.length === 0 ? null : { event: field('event').at(-1) ?? 'message', data: data.join('\n') }
}
