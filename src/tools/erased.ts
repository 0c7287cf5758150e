import { isJsonObject, own, type JsonObject, type JsonValue } from './json.ts'

/** What stands where the data of a person stood who was erased. */
export const ERASED: JsonObject = Object.freeze({ erased: true })

export function isErased(value: JsonValue): boolean {
  return isJsonObject(value) && Object.keys(value).length === 1 && own(value, 'erased') === true
}
