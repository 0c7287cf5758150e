import {
  type AggregateFunctionNode,
  type AndNode,
  type BinaryOperationNode,
  type CaseNode,
  type CastNode,
  type CollateNode,
  type ColumnNode,
  type DataTypeNode,
  type DefaultInsertValueNode,
  type FunctionNode,
  type GroupByItemNode,
  type GroupByNode,
  type HavingNode,
  type IdentifierNode,
  isColumnDataType,
  isOperator,
  type JSONOperatorChainNode,
  type JSONReferenceNode,
  type LimitNode,
  type OffsetNode,
  type OnNode,
  type OperationNode,
  type OperatorNode,
  type OrderByItemNode,
  type OrderByNode,
  type OrNode,
  type OverNode,
  type ParensNode,
  type PartitionByItemNode,
  type PartitionByNode,
  type PrimitiveValueListNode,
  type ReturningNode,
  type SelectAllNode,
  type SelectionNode,
  type SelectModifierNode,
  type SetOperationNode,
  type TupleNode,
  type UnaryOperationNode,
  type ValueListNode,
  type ValueNode,
  type ValuesNode,
  type WhenNode,
  type WhereNode,
} from 'kysely'

/**
 * What a property of a node is: `node` and `nodes` are looked into; `value` becomes a parameter or a quoted literal;
 * `name` is quoted by the compiler; `absent` must not be set. A function judges text that goes into the SQL as it stands.
 */
export type Role = 'node' | 'nodes' | 'value' | 'name' | 'absent' | ((text: unknown) => boolean)

/** Nodes that name no table and open no scope: they are safe when their children are. */
type PassiveNode =
  | AggregateFunctionNode
  | AndNode
  | BinaryOperationNode
  | CaseNode
  | CastNode
  | CollateNode
  | ColumnNode
  | DataTypeNode
  | DefaultInsertValueNode
  | FunctionNode
  | GroupByItemNode
  | GroupByNode
  | HavingNode
  | IdentifierNode
  | JSONOperatorChainNode
  | JSONReferenceNode
  | LimitNode
  | OffsetNode
  | OnNode
  | OperatorNode
  | OrderByItemNode
  | OrderByNode
  | OrNode
  | OverNode
  | ParensNode
  | PartitionByItemNode
  | PartitionByNode
  | PrimitiveValueListNode
  | ReturningNode
  | SelectAllNode
  | SelectionNode
  | SelectModifierNode
  | SetOperationNode
  | TupleNode
  | UnaryOperationNode
  | ValueListNode
  | ValueNode
  | ValuesNode
  | WhenNode
  | WhereNode

/** Complete by its type: a property that a new version of Kysely adds to a node stops the compilation here. */
type Grammar = { [Node in PassiveNode as Node['kind']]: { [Property in Exclude<keyof Node, 'kind'>]-?: Role } }

export const isFlag = (value: unknown): boolean => typeof value === 'boolean'

export function words(text: string): string[] {
  return text.split(' ')
}

function oneOf(...words: string[]): Role {
  return (value) => typeof value === 'string' && words.includes(value)
}

/**
 * Functions that compute from their arguments alone. Others can read a table named in a string (`query_to_xml`), a file
 * or a setting, and Kysely writes the name into the SQL as it stands. `now` and `gen_random_uuid` read no data.
 */
const functionName = oneOf(
  ...words('coalesce nullif greatest least any now gen_random_uuid abs ceil floor round mod length char_length'),
  ...words('octet_length lower upper trim btrim ltrim rtrim left right replace substr substring concat concat_ws'),
  ...words('split_part starts_with strpos to_char date_trunc date_part to_json to_jsonb json_build_object'),
  ...words('jsonb_build_object json_build_array jsonb_build_array json_array_length jsonb_array_length json_typeof'),
  ...words('jsonb_typeof jsonb_set jsonb_strip_nulls array_length cardinality array_position array_append'),
  ...words('array_remove'),
)

const aggregateName = oneOf(
  ...words('count sum avg min max bool_and bool_or every array_agg string_agg json_agg jsonb_agg json_object_agg'),
  ...words('jsonb_object_agg percentile_cont percentile_disc mode row_number rank dense_rank percent_rank ntile lag'),
  ...words('lead first_value last_value'),
)

const selectModifier = oneOf(...words('Distinct ForUpdate ForNoKeyUpdate ForShare ForKeyShare NoWait SkipLocked'))

const dataType = (value: unknown): boolean => typeof value === 'string' && isColumnDataType(value)

const grammar: Grammar = {
  AggregateFunctionNode: {
    func: aggregateName,
    aggregated: 'nodes',
    distinct: isFlag,
    orderBy: 'node',
    withinGroup: 'node',
    filter: 'node',
    over: 'node',
  },
  AndNode: { left: 'node', right: 'node' },
  BinaryOperationNode: { leftOperand: 'node', operator: 'node', rightOperand: 'node' },
  CaseNode: { value: 'node', when: 'nodes', else: 'node', isStatement: isFlag },
  CastNode: { expression: 'node', dataType: 'node' },
  CollateNode: { collation: 'node' },
  ColumnNode: { column: 'node' },
  DataTypeNode: { dataType },
  DefaultInsertValueNode: {},
  FunctionNode: { func: functionName, arguments: 'nodes' },
  GroupByItemNode: { groupBy: 'node' },
  GroupByNode: { items: 'nodes' },
  HavingNode: { having: 'node' },
  IdentifierNode: { name: 'name' },
  JSONOperatorChainNode: { operator: 'node', values: 'nodes' },
  JSONReferenceNode: { reference: 'node', traversal: 'node' },
  LimitNode: { limit: 'node' },
  OffsetNode: { offset: 'node' },
  OnNode: { on: 'node' },
  OperatorNode: { operator: isOperator },
  OrderByItemNode: { orderBy: 'node', direction: 'node', nulls: oneOf('first', 'last'), collation: 'node' },
  OrderByNode: { items: 'nodes' },
  OrNode: { left: 'node', right: 'node' },
  OverNode: { orderBy: 'node', partitionBy: 'node' },
  ParensNode: { node: 'node' },
  PartitionByItemNode: { partitionBy: 'node' },
  PartitionByNode: { items: 'nodes' },
  PrimitiveValueListNode: { values: 'value' },
  ReturningNode: { selections: 'nodes' },
  SelectAllNode: {},
  SelectionNode: { selection: 'node' },
  SelectModifierNode: { modifier: selectModifier, rawModifier: 'absent', of: 'nodes' },
  SetOperationNode: { operator: oneOf('union', 'intersect', 'except'), expression: 'node', all: isFlag },
  TupleNode: { values: 'nodes' },
  UnaryOperationNode: { operator: 'node', operand: 'node' },
  ValueListNode: { values: 'nodes' },
  ValueNode: { value: 'value', immediate: isFlag },
  ValuesNode: { values: 'nodes' },
  WhenNode: { condition: 'node', result: 'node' },
  WhereNode: { where: 'node' },
}

export type Shape = Readonly<Record<string, Role>>

/** Undefined for a kind that is not passive, or not known. */
export function passiveShape(kind: string): Shape | undefined {
  return Object.hasOwn(grammar, kind) ? (grammar as Readonly<Record<string, Shape>>)[kind] : undefined
}

/** SQL text that may stand as a raw fragment: Kysely writes sort directions so, and people write these. */
const SAFE_RAW: ReadonlySet<string> = new Set(['asc', 'desc', 'now()', 'current_timestamp', 'true', 'false', 'null'])

export function isSafeRaw(text: string): boolean {
  return SAFE_RAW.has(text)
}

export function isNode(value: unknown): value is OperationNode {
  return typeof value === 'object' && value !== null && 'kind' in value && typeof value.kind === 'string'
}
