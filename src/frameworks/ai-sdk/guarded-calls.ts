import { wrapLanguageModel } from 'ai'
import { parseArgumentsText } from '../../tools/arguments-text.ts'
import type { LanguageModel, LanguageModelV4, ModelStreamPart } from './model-types.ts'

/** What every provider takes back as the id of a call. */
const PLAIN_ID = /^[a-zA-Z0-9_-]{1,64}$/

/** Characters kept of a text that is refused anyway. */
const MAX_REFUSED_TEXT = 100_000

/**
 * Makes the calls of a turn safe to handle, below the AI SDK.
 *
 * Ids become unique in the conversation: some providers number the calls of every turn from zero, and results are
 * matched by id, so a repeated one would hand one call's answer to another. A unique id is left alone, since OpenAI
 * pairs it with items it stored. Arguments are judged as the model wrote them: the AI SDK keeps the last of two equal
 * keys, rounds numbers and copies nested values recursively. A text that does not say one thing only is passed on as a
 * text, which fits no contract, so that the invoker refuses the call.
 */
export function guardedCalls(model: LanguageModel, taken: Iterable<string>): LanguageModelV4 {
  const used = new Set(taken)
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      async wrapGenerate({ doGenerate }) {
        const result = await doGenerate()
        return { ...result, content: result.content.map((part) => guarded(part, used)) }
      },
      async wrapStream({ doStream }) {
        const result = await doStream()
        const guard = new TransformStream<ModelStreamPart, ModelStreamPart>({
          transform: (part, controller) => controller.enqueue(guarded(part, used)),
        })
        return { ...result, stream: result.stream.pipeThrough(guard) }
      },
    },
  })
}

function guarded<Part extends { readonly type: string }>(
  part: Part | ToolCallPart,
  used: Set<string>,
): Part | ToolCallPart {
  // A call the provider executes has its result in the same answer, under the provider's id.
  if (!isToolCall(part) || part.providerExecuted === true) return part
  const toolCallId = unusedId(part.toolCallId, used)
  used.add(toolCallId)
  return { ...part, toolCallId, input: judgedInput(part.input) }
}

type ToolCallPart = Extract<ModelStreamPart, { type: 'tool-call' }>

function isToolCall(part: { readonly type: string }): part is ToolCallPart {
  return part.type === 'tool-call'
}

function unusedId(wanted: string, taken: ReadonlySet<string>): string {
  if (PLAIN_ID.test(wanted) && !taken.has(wanted)) return wanted
  let number = taken.size + 1
  while (taken.has(`call_${number}`)) number += 1
  return `call_${number}`
}

/** No text at all is how some providers write a call without arguments. */
function judgedInput(text: string): string {
  if (text.trim() === '' || parseArgumentsText(text).kind === 'parsed') return text
  return JSON.stringify(text.slice(0, MAX_REFUSED_TEXT).toWellFormed())
}
