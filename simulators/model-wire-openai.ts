import { z } from 'zod'
import type { JsonValue } from '../src/tools/json.ts'
import { chunksOf, type PlayedTurn, type TranscriptEntry } from '../src/testing/script.ts'
import { checkFunctionName, checkParameters, WireRefusal, type ModelWire, type WireEvent } from './model-wire.ts'

const content = z.union([z.string(), z.null(), z.array(z.object({ type: z.literal('text'), text: z.string() }))])

const toolCall = z.object({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.object({ name: z.string(), arguments: z.string() }),
})

const message = z.discriminatedUnion('role', [
  z.object({ role: z.enum(['system', 'developer']), content }),
  z.object({ role: z.literal('user'), content }),
  z.object({
    role: z.literal('assistant'),
    content: content.optional(),
    tool_calls: z.array(toolCall).min(1).optional(),
  }),
  z.object({ role: z.literal('tool'), tool_call_id: z.string(), content }),
])

const requestBody = z.object({
  model: z.string().min(1),
  stream: z.boolean().default(false),
  stream_options: z.object({ include_usage: z.boolean().default(false) }).optional(),
  messages: z.array(message).min(1),
  tools: z
    .array(
      z.object({
        type: z.literal('function'),
        function: z.object({
          name: z.string(),
          description: z.string().optional(),
          parameters: z.record(z.string(), z.unknown()),
        }),
      }),
    )
    .default([]),
})

type Message = z.infer<typeof message>

/** `POST /v1/chat/completions`, as OpenAI defines it and as Ollama, vLLM and most gateways speak it. */
export const openAiWire: ModelWire = {
  path: '/openai/v1/chat/completions',
  read(body) {
    const request = requestBody.safeParse(body)
    if (!request.success) throw new WireRefusal(z.prettifyError(request.error))
    const { model, stream, stream_options: options, messages, tools } = request.data
    tools.forEach((tool, index) => {
      checkFunctionName(tool.function.name, `tools[${index}].function.name`)
      checkParameters(tool.function.parameters, tool.function.name)
    })
    checkCalls(messages)
    return {
      model,
      stream,
      reportsUsage: options?.include_usage === true,
      transcript: {
        instructions: messages.flatMap((entry) => (isInstruction(entry) ? [textOf(entry.content)] : [])).join('\n'),
        tools: tools.map((tool) => tool.function.name),
        entries: messages.flatMap(entryOf),
      },
    }
  },
  whole(turn, { model }) {
    const toolCalls = turn.calls.map(({ id, tool, argsText }) => callOf(id, tool, argsText))
    const spoken = { role: 'assistant', content: turn.text === '' ? null : turn.text }
    return {
      ...header(model, 'chat.completion'),
      choices: [
        {
          index: 0,
          message: toolCalls.length > 0 ? { ...spoken, tool_calls: toolCalls } : spoken,
          finish_reason: finishOf(turn),
        },
      ],
      usage: usageOf(turn),
    }
  },
  events(turn, { model, reportsUsage }) {
    const head = header(model, 'chat.completion.chunk')
    const chunk = (delta: unknown, finish: string | null = null): WireEvent => ({
      data: { ...head, choices: [{ index: 0, delta, finish_reason: finish }] },
    })
    const spoken = [
      chunk({ role: 'assistant', content: '' }),
      ...chunksOf(turn.text, 16).map((text) => chunk({ content: text })),
    ]
    if (turn.fail !== null)
      return [...spoken, { data: { error: { message: turn.fail.message, type: 'server_error' } } }]
    const calls = turn.calls.flatMap(({ id, tool, argsText }, index) => [
      chunk({ tool_calls: [{ index, ...callOf(id, tool, '') }] }),
      ...chunksOf(argsText, 16).map((part) => chunk({ tool_calls: [{ index, function: { arguments: part } }] })),
    ])
    const usage = reportsUsage ? [{ data: { ...head, choices: [], usage: usageOf(turn) } }] : []
    return [...spoken, ...calls, chunk({}, finishOf(turn)), ...usage, { data: '[DONE]' }]
  },
  error: (status, text) => ({
    error: { message: text, type: status < 500 ? 'invalid_request_error' : 'server_error', param: null, code: null },
  }),
}

/** Every call must be answered by the messages right after it, and only by them. */
function checkCalls(messages: readonly Message[]): void {
  let open = new Set<string>()
  for (const [index, entry] of messages.entries()) {
    if (entry.role === 'tool') {
      if (!open.delete(entry.tool_call_id)) {
        throw new WireRefusal(`messages[${index}]: 'tool' must answer a preceding message with 'tool_calls'.`)
      }
      continue
    }
    refuseOpen(open)
    open = new Set()
    if (entry.role !== 'assistant') continue
    for (const [position, call] of (entry.tool_calls ?? []).entries()) {
      checkFunctionName(call.function.name, `messages[${index}].tool_calls[${position}].function.name`)
      open.add(call.id)
    }
    if (open.size < (entry.tool_calls ?? []).length)
      throw new WireRefusal(`messages[${index}]: duplicate tool call id.`)
  }
  refuseOpen(open)
}

function refuseOpen(open: ReadonlySet<string>): void {
  if (open.size === 0) return
  throw new WireRefusal(`These tool_call_ids did not have response messages: ${[...open].join(', ')}`)
}

function isInstruction(entry: Message): entry is Extract<Message, { role: 'system' | 'developer' }> {
  return entry.role === 'system' || entry.role === 'developer'
}

function entryOf(entry: Message): TranscriptEntry[] {
  if (isInstruction(entry)) return []
  if (entry.role === 'user') return [{ role: 'user', text: textOf(entry.content) }]
  if (entry.role === 'tool') return [{ role: 'answer', callId: entry.tool_call_id, text: textOf(entry.content) }]
  const calls = (entry.tool_calls ?? []).map((call) => ({
    id: call.id,
    tool: call.function.name,
    args: argumentsOf(call.function.arguments),
  }))
  return [{ role: 'model', text: textOf(entry.content ?? null), calls }]
}

function argumentsOf(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return text
  }
}

function textOf(value: z.infer<typeof content>): string {
  if (value === null || typeof value === 'string') return value ?? ''
  return value.map((part) => part.text).join('')
}

function header(model: string, object: string) {
  return { id: 'chatcmpl-simulated', object, created: 1_700_000_000, model }
}

function callOf(id: string, name: string, args: string) {
  return { id, type: 'function', function: { name, arguments: args } }
}

const FINISH = {
  stop: 'stop',
  'tool-calls': 'tool_calls',
  length: 'length',
  'content-filter': 'content_filter',
  other: 'unknown',
} as const

function finishOf(turn: PlayedTurn): string {
  return FINISH[turn.finish]
}

function usageOf({ inputTokens, outputTokens }: PlayedTurn) {
  return { prompt_tokens: inputTokens, completion_tokens: outputTokens, total_tokens: inputTokens + outputTokens }
}
