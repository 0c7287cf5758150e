/** Offsets into the source text, in UTF-16 code units; `end` is exclusive. */
export interface Position {
  readonly start: number
  readonly end: number
}

export type BinaryOperator = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'in' | '+' | '-' | '*' | '/' | '%'

export type Method =
  | 'size'
  | 'contains'
  | 'startsWith'
  | 'endsWith'
  | 'lowerAscii'
  | 'upperAscii'
  | 'glob'
  | 'int'
  | 'double'

export type Macro = 'all' | 'exists' | 'exists_one' | 'filter' | 'map'

/**
 * The whole rule language as a tree. A construct of CEL that has no kind here cannot be compiled, so the allow-list is
 * this type and not a filter that could forget something.
 */
export type Condition = { readonly at: Position } & (
  | { readonly kind: 'literal'; readonly value: null | boolean | number | bigint | string }
  | { readonly kind: 'list'; readonly items: readonly Condition[] }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'field'; readonly of: Condition; readonly key: string }
  | { readonly kind: 'index'; readonly of: Condition; readonly key: Condition }
  | { readonly kind: 'has'; readonly of: Condition; readonly key: string }
  | { readonly kind: 'not' | 'negate'; readonly of: Condition }
  | { readonly kind: 'and' | 'or'; readonly left: Condition; readonly right: Condition }
  | { readonly kind: 'choose'; readonly test: Condition; readonly yes: Condition; readonly no: Condition }
  | { readonly kind: 'binary'; readonly operator: BinaryOperator; readonly left: Condition; readonly right: Condition }
  | { readonly kind: 'call'; readonly method: Method; readonly of: Condition; readonly argument: Condition | null }
  | EachNode
)

/** A macro over a list, or over the keys of a map. `test` is null only for `map(x, value)`, `value` for all but `map`. */
export interface EachNode {
  readonly kind: 'each'
  readonly macro: Macro
  readonly over: Condition
  readonly variable: string
  readonly test: Condition | null
  readonly value: Condition | null
}

/** The direct parts of a node, in the order they are written. */
export function partsOf(node: Condition): readonly Condition[] {
  switch (node.kind) {
    case 'literal':
    case 'name':
      return []
    case 'list':
      return node.items
    case 'field':
    case 'has':
    case 'not':
    case 'negate':
      return [node.of]
    case 'index':
      return [node.of, node.key]
    case 'and':
    case 'or':
    case 'binary':
      return [node.left, node.right]
    case 'choose':
      return [node.test, node.yes, node.no]
    case 'call':
      return node.argument === null ? [node.of] : [node.of, node.argument]
    case 'each':
      return [node.over, ...(node.test === null ? [] : [node.test]), ...(node.value === null ? [] : [node.value])]
  }
}
