import type {
  LanguageModelV4,
  ModelCallOptions,
  ModelGenerateResult,
  ModelPrompt,
  ModelStreamPart,
  ModelUsageReport,
} from '../frameworks/ai-sdk/model-types.ts'
import type { JsonValue } from '../tools/json.ts'
import {
  chunksOf,
  scriptPlayer,
  type PlayedTurn,
  type Script,
  type Transcript,
  type TranscriptEntry,
} from './script.ts'

export interface ScriptedModelOptions {
  /** Model id in usage rows. */
  readonly name: string
  readonly next: Script
}

/** A language model that plays a script: no account, no network, the same words every time. */
export function scriptedModel({ name, next }: ScriptedModelOptions): LanguageModelV4 {
  const play = scriptPlayer(next)
  return {
    specificationVersion: 'v4',
    provider: 'scripted',
    modelId: name,
    supportedUrls: {},
    async doStream(options) {
      const turn = play(transcriptOf(options))
      if (turn.fail !== null && turn.text === '') throw turn.fail
      return { stream: streamOf(partsOf(turn), options.abortSignal) }
    },
    async doGenerate(options) {
      const turn = play(transcriptOf(options))
      if (turn.fail !== null) throw turn.fail
      return { content: contentOf(turn), finishReason: finishOf(turn), usage: usageOf(turn), warnings: [] }
    },
  }
}

/** Characters of one text delta. */
const CHUNK = 16

function partsOf(turn: PlayedTurn): ModelStreamPart[] {
  const parts: ModelStreamPart[] = [{ type: 'stream-start', warnings: [] }]
  if (turn.text !== '') {
    parts.push({ type: 'text-start', id: 'text' })
    for (const delta of chunksOf(turn.text, CHUNK)) parts.push({ type: 'text-delta', id: 'text', delta })
    parts.push({ type: 'text-end', id: 'text' })
  }
  if (turn.fail !== null) return [...parts, { type: 'error', error: turn.fail }]
  for (const { id, tool, argsText } of turn.calls) {
    parts.push({ type: 'tool-input-start', id, toolName: tool })
    parts.push({ type: 'tool-input-delta', id, delta: argsText })
    parts.push({ type: 'tool-input-end', id })
    parts.push({ type: 'tool-call', toolCallId: id, toolName: tool, input: argsText })
  }
  return [...parts, { type: 'finish', finishReason: finishOf(turn), usage: usageOf(turn) }]
}

function streamOf(parts: readonly ModelStreamPart[], signal: AbortSignal | undefined): ReadableStream<ModelStreamPart> {
  const remaining = parts[Symbol.iterator]()
  return new ReadableStream({
    pull(controller) {
      if (signal?.aborted === true) {
        controller.error(signal.reason)
        return
      }
      const next = remaining.next()
      if (next.done === true) controller.close()
      else controller.enqueue(next.value)
    },
  })
}

function contentOf(turn: PlayedTurn): ModelGenerateResult['content'] {
  return [
    ...(turn.text === '' ? [] : [{ type: 'text' as const, text: turn.text }]),
    ...turn.calls.map(({ id, tool, argsText }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: tool,
      input: argsText,
    })),
  ]
}

function finishOf(turn: PlayedTurn): ModelGenerateResult['finishReason'] {
  return { unified: turn.finish, raw: turn.finish }
}

function usageOf({ inputTokens, outputTokens }: PlayedTurn): ModelUsageReport {
  return {
    inputTokens: { total: inputTokens, noCache: inputTokens, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: outputTokens, text: outputTokens, reasoning: 0 },
  }
}

function transcriptOf({ prompt, tools }: ModelCallOptions): Transcript {
  return {
    instructions: prompt.flatMap((message) => (message.role === 'system' ? [message.content] : [])).join('\n'),
    tools: (tools ?? []).map((tool) => tool.name),
    entries: prompt.flatMap(entriesOf),
  }
}

function entriesOf(message: ModelPrompt[number]): TranscriptEntry[] {
  switch (message.role) {
    case 'system':
      return []
    case 'user':
      return [{ role: 'user', text: message.content.map((part) => (part.type === 'text' ? part.text : '')).join('') }]
    case 'assistant':
      return [
        {
          role: 'model',
          text: message.content.map((part) => (part.type === 'text' ? part.text : '')).join(''),
          calls: message.content.flatMap((part) =>
            part.type === 'tool-call'
              ? [{ id: part.toolCallId, tool: part.toolName, args: part.input as JsonValue }]
              : [],
          ),
        },
      ]
    case 'tool':
      return message.content.flatMap((part): TranscriptEntry[] =>
        part.type === 'tool-result' ? [{ role: 'answer', callId: part.toolCallId, text: answerText(part.output) }] : [],
      )
    default:
      message satisfies never
      return []
  }
}

type AnswerOutput = Extract<
  Extract<ModelPrompt[number], { role: 'tool' }>['content'][number],
  { type: 'tool-result' }
>['output']

function answerText(output: AnswerOutput): string {
  if (output.type === 'text' || output.type === 'error-text') return output.value
  return output.type === 'execution-denied' ? (output.reason ?? '') : JSON.stringify(output.value)
}
