import { isJsonObject } from '../tools/json.ts'
import type { FactType } from '../tools/handler.ts'
import type { Macro, Method } from './condition.ts'

/** Declared with their fields, so that a misspelt field is refused when the rule is saved. */
export const PRINCIPAL_FIELDS = {
  agent: 'string',
  /** Empty when no user stands behind the run. */
  user_id: 'string',
  roles: 'list<string>',
  scopes: 'list<string>',
  started_by: 'string',
} as const

export const RUN_FIELDS = {
  id: 'string',
  source: 'string',
  step_path: 'string',
  /** Whether untrusted content entered the run tree before this call. */
  tainted: 'bool',
  /** Names of the tools that brought it. */
  taint_sources: 'list<string>',
} as const

/** What a name stands for to the checks of a text: a fact's type, or `json` for a value whose type nobody declared. */
export type VariableType = FactType | 'json'

/** Number of arguments after the value itself; `global` is written `size(x)`, `receiver` is written `x.size()`. */
export const METHODS: Readonly<
  Record<Method, { readonly takes: 0 | 1; readonly written: 'global' | 'receiver' | 'both' }>
> = {
  size: { takes: 0, written: 'both' },
  contains: { takes: 1, written: 'receiver' },
  startsWith: { takes: 1, written: 'receiver' },
  endsWith: { takes: 1, written: 'receiver' },
  lowerAscii: { takes: 0, written: 'receiver' },
  upperAscii: { takes: 0, written: 'receiver' },
  glob: { takes: 1, written: 'receiver' },
  int: { takes: 0, written: 'global' },
  double: { takes: 0, written: 'global' },
}

/** How many arguments each macro takes. */
export const MACROS: Readonly<Record<Macro, readonly number[]>> = {
  all: [2],
  exists: [2],
  exists_one: [2],
  filter: [2],
  map: [2, 3],
}

export function isMethod(name: string): name is Method {
  return Object.hasOwn(METHODS, name)
}

export function isMacro(name: string): name is Macro {
  return Object.hasOwn(MACROS, name)
}

export const FUNCTION_NAMES: readonly string[] = [...Object.keys(METHODS), ...Object.keys(MACROS), 'has']

/** What other languages call the same thing; none of them is close enough in letters to be guessed. */
export const FAMILIAR_NAMES: Readonly<Record<string, string>> = {
  length: 'size',
  len: 'size',
  count: 'size',
  includes: 'contains',
  any: 'exists',
  some: 'exists',
  every: 'all',
  lower: 'lowerAscii',
  lowercase: 'lowerAscii',
  toLowerCase: 'lowerAscii',
  upper: 'upperAscii',
  uppercase: 'upperAscii',
  toUpperCase: 'upperAscii',
  like: 'glob',
  match: 'glob',
}

/** Whether a resolved value is what its resolver declares. A JSON number is an `int` only where it is whole and exact. */
export function isOfFactType(type: FactType, value: unknown): boolean {
  switch (type) {
    case 'bool':
      return typeof value === 'boolean'
    case 'string':
      return typeof value === 'string'
    case 'int':
      return Number.isSafeInteger(value)
    case 'double':
      return Number.isFinite(value)
    case 'list':
      return Array.isArray(value)
    case 'map':
      return isJsonObject(value)
  }
}
