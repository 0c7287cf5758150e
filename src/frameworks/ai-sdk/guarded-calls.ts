import { wrapLanguageModel } from 'ai'
import type { LanguageModel, LanguageModelV4, ModelStreamPart } from './model-types.ts'

/** What every provider takes back as the id of a call. */
const PLAIN_ID = /^[a-zA-Z0-9_-]{1,64}$/

/** Levels of nesting in a call's arguments. No contract comes near it; recursive code breaks a thousand levels later. */
const MAX_ARGUMENT_DEPTH = 100

/**
 * Makes the calls of a turn safe to handle, below the AI SDK.
 *
 * Ids become unique in the conversation: some providers number the calls of every turn from zero, and results are
 * matched by id, so a repeated one would hand one call's answer to another. A unique id is left alone, since OpenAI
 * pairs it with items it stored. Arguments that nest too deeply become a plain text, which fits no contract: the AI SDK
 * copies arguments recursively, and a model could end every attempt at a turn with an overflow.
 */
export function guardedCalls(model: LanguageModel, taken: Iterable<string>): LanguageModelV4 {
  const history = [...taken]
  return wrapLanguageModel({
    model,
    middleware: {
      specificationVersion: 'v4',
      async wrapStream({ doStream }) {
        const result = await doStream()
        return { ...result, stream: result.stream.pipeThrough(guard(new Set(history))) }
      },
    },
  })
}

function guard(taken: Set<string>): TransformStream<ModelStreamPart, ModelStreamPart> {
  return new TransformStream({
    transform(part, controller) {
      // A call the provider executes has its result in the same stream, under the provider's id.
      if (part.type !== 'tool-call' || part.providerExecuted === true) {
        controller.enqueue(part)
        return
      }
      const toolCallId = unusedId(part.toolCallId, taken)
      taken.add(toolCallId)
      const input = nestsTooDeeply(part.input) ? JSON.stringify(part.input) : part.input
      controller.enqueue({ ...part, toolCallId, input })
    },
  })
}

function unusedId(wanted: string, taken: ReadonlySet<string>): string {
  if (PLAIN_ID.test(wanted) && !taken.has(wanted)) return wanted
  let number = taken.size + 1
  while (taken.has(`call_${number}`)) number += 1
  return `call_${number}`
}

/** Counts brackets outside of strings, so that a text with many brackets in it is no nesting. */
function nestsTooDeeply(json: string): boolean {
  let depth = 0
  let inString = false
  for (let index = 0; index < json.length; index += 1) {
    const character = json[index]
    if (inString) {
      if (character === '\\') index += 1
      else if (character === '"') inString = false
    } else if (character === '"') inString = true
    else if (character === '[' || character === '{') {
      depth += 1
      if (depth > MAX_ARGUMENT_DEPTH) return true
    } else if (character === ']' || character === '}') depth -= 1
  }
  return false
}
