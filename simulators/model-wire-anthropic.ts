import { z } from 'zod'
import { chunksOf, type PlayedTurn, type TranscriptEntry } from '../src/testing/script.ts'
import { checkFunctionName, checkParameters, WireRefusal, type ModelWire, type WireEvent } from './model-wire.ts'

const textBlock = z.object({ type: z.literal('text'), text: z.string().min(1) })

const toolUse = z.object({
  type: z.literal('tool_use'),
  id: z.string().regex(/^[a-zA-Z0-9_-]+$/),
  name: z.string(),
  input: z.record(z.string(), z.json()),
})

const toolResult = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(textBlock)]).optional(),
  is_error: z.boolean().optional(),
})

const message = z.discriminatedUnion('role', [
  z.object({
    role: z.literal('user'),
    content: z.union([z.string().min(1), z.array(z.discriminatedUnion('type', [textBlock, toolResult])).min(1)]),
  }),
  z.object({
    role: z.literal('assistant'),
    content: z.union([z.string().min(1), z.array(z.discriminatedUnion('type', [textBlock, toolUse])).min(1)]),
  }),
])

const requestBody = z.object({
  model: z.string().min(1),
  max_tokens: z.int().min(1),
  stream: z.boolean().default(false),
  system: z.union([z.string(), z.array(textBlock)]).optional(),
  messages: z.array(message).min(1),
  tools: z
    .array(
      z.object({
        name: z.string(),
        description: z.string().optional(),
        input_schema: z.record(z.string(), z.unknown()),
      }),
    )
    .default([]),
})

type Message = z.infer<typeof message>
type Block = Exclude<Message['content'], string>[number]

/** `POST /v1/messages` in version 2023-06-01. */
export const anthropicWire: ModelWire = {
  path: '/anthropic/v1/messages',
  read(body, headers) {
    if (headers['x-api-key'] === undefined) throw new WireRefusal('x-api-key header is required', 401)
    if (headers['anthropic-version'] === undefined) throw new WireRefusal('anthropic-version: header is required')
    const request = requestBody.safeParse(body)
    if (!request.success) throw new WireRefusal(z.prettifyError(request.error))
    const { model, stream, system, messages, tools } = request.data
    tools.forEach((tool, index) => {
      checkFunctionName(tool.name, `tools.${index}.custom.name`)
      checkParameters(tool.input_schema, `tools.${index}.custom.input_schema`)
    })
    checkCalls(messages)
    return {
      model,
      stream,
      reportsUsage: true,
      transcript: {
        instructions: typeof system === 'string' ? system : (system ?? []).map((block) => block.text).join('\n'),
        tools: tools.map((tool) => tool.name),
        entries: messages.flatMap(entriesOf),
      },
    }
  },
  whole(turn, { model }) {
    const spoken = turn.text === '' ? [] : [{ type: 'text', text: turn.text }]
    const calls = turn.calls.map(({ id, tool, argsText }) => ({
      type: 'tool_use',
      id,
      name: tool,
      input: JSON.parse(argsText) as unknown,
    }))
    const usage = { input_tokens: turn.inputTokens, output_tokens: turn.outputTokens }
    return {
      ...header(model),
      content: [...spoken, ...calls],
      stop_reason: stopReason(turn),
      stop_sequence: null,
      usage,
    }
  },
  events(turn, { model }) {
    const opened = { ...header(model), content: [], stop_reason: null, stop_sequence: null }
    const events: WireEvent[] = [
      named({
        type: 'message_start',
        message: { ...opened, usage: { input_tokens: turn.inputTokens, output_tokens: 1 } },
      }),
      named({ type: 'ping' }),
    ]
    const texts = turn.text === '' ? [] : [turn.text]
    for (const [index, text] of texts.entries()) {
      events.push(named({ type: 'content_block_start', index, content_block: { type: 'text', text: '' } }))
      for (const part of chunksOf(text, 16)) events.push(blockDelta(index, { type: 'text_delta', text: part }))
      events.push(named({ type: 'content_block_stop', index }))
    }
    if (turn.fail !== null) {
      const error = { type: 'overloaded_error', message: turn.fail.message }
      return [...events, named({ type: 'error', error })]
    }
    for (const [position, { id, tool: name, argsText }] of turn.calls.entries()) {
      const index = texts.length + position
      events.push(
        named({ type: 'content_block_start', index, content_block: { type: 'tool_use', id, name, input: {} } }),
      )
      for (const part of chunksOf(argsText, 16))
        events.push(blockDelta(index, { type: 'input_json_delta', partial_json: part }))
      events.push(named({ type: 'content_block_stop', index }))
    }
    const delta = { stop_reason: stopReason(turn), stop_sequence: null }
    events.push(named({ type: 'message_delta', delta, usage: { output_tokens: turn.outputTokens } }))
    return [...events, named({ type: 'message_stop' })]
  },
  error: (status, text) => ({ type: 'error', error: { type: ERROR_TYPES[status] ?? 'api_error', message: text } }),
}

const ERROR_TYPES: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
}

/** Every `tool_use` must be answered in the very next message, and ids are unique in the whole conversation. */
function checkCalls(messages: readonly Message[]): void {
  const used = new Set<string>()
  for (const [index, entry] of messages.entries()) {
    const asked = blocksOf(entry).flatMap((block) => (block.type === 'tool_use' ? [block] : []))
    for (const call of asked) {
      checkFunctionName(call.name, `messages.${index}.content.tool_use.name`)
      if (used.has(call.id)) throw new WireRefusal(`messages.${index}: \`tool_use\` ids must be unique`)
      used.add(call.id)
    }
    const next = messages[index + 1]
    const answers =
      next === undefined ? [] : blocksOf(next).flatMap((block) => (block.type === 'tool_result' ? [block] : []))
    const answered = new Set(answers.map((answer) => answer.tool_use_id))
    const missing = asked.filter((call) => !answered.has(call.id))
    if (missing.length > 0) {
      throw new WireRefusal(
        `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${missing.map((call) => call.id).join(', ')}`,
      )
    }
    if (answered.size !== asked.length || answers.length !== asked.length) {
      throw new WireRefusal(`messages.${index + 1}: unexpected \`tool_use_id\` found in \`tool_result\` blocks`)
    }
  }
}

function blocksOf(entry: Message): Block[] {
  return typeof entry.content === 'string' ? [{ type: 'text', text: entry.content }] : [...entry.content]
}

function entriesOf(entry: Message): TranscriptEntry[] {
  const blocks = blocksOf(entry)
  const text = blocks.map((block) => (block.type === 'text' ? block.text : '')).join('')
  if (entry.role === 'assistant') {
    const calls = blocks.flatMap((block) =>
      block.type === 'tool_use' ? [{ id: block.id, tool: block.name, args: block.input }] : [],
    )
    return [{ role: 'model', text, calls }]
  }
  const answers = blocks.flatMap((block): TranscriptEntry[] =>
    block.type === 'tool_result'
      ? [{ role: 'answer', callId: block.tool_use_id, text: answerText(block.content) }]
      : [],
  )
  return text === '' ? answers : [...answers, { role: 'user', text }]
}

function answerText(value: z.infer<typeof toolResult>['content']): string {
  if (value === undefined || typeof value === 'string') return value ?? ''
  return value.map((block) => block.text).join('')
}

function header(model: string) {
  return { id: 'msg_simulated', type: 'message', role: 'assistant', model }
}

function named(data: { readonly type: string } & Readonly<Record<string, unknown>>): WireEvent {
  return { event: data.type, data }
}

function blockDelta(index: number, delta: unknown): WireEvent {
  return named({ type: 'content_block_delta', index, delta })
}

const STOP_REASON = {
  stop: 'end_turn',
  'tool-calls': 'tool_use',
  length: 'max_tokens',
  'content-filter': 'refusal',
  other: 'unknown',
} as const

function stopReason(turn: PlayedTurn): string {
  return STOP_REASON[turn.finish]
}
