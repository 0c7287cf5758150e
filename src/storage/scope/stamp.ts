import {
  AliasNode,
  CastNode,
  ColumnNode,
  DataTypeNode,
  FromNode,
  IdentifierNode,
  type OperationNode,
  PrimitiveValueListNode,
  SelectionNode,
  SelectQueryNode,
  TableNode,
  ValueListNode,
  ValueNode,
  ValuesNode,
} from 'kysely'
import { ScopeRefused } from '../errors.ts'
import { OWNER } from './tables.ts'

interface Stamped {
  readonly columns: ColumnNode[]
  readonly values: OperationNode
}

/** Puts the organization on every row of an insert, whatever the insert says about it; a different one is refused. */
export function stamp(
  insert: { columns: readonly ColumnNode[]; rows: OperationNode | undefined },
  organizationId: string,
): Stamped {
  const { rows } = insert
  const names = insert.columns.map((column) => column.column.name)
  if (names.length === 0) throw new ScopeRefused('A scoped insert names its columns')
  const given = names.indexOf(OWNER)
  const columns = (given < 0 ? [...names, OWNER] : names).map((name) => ColumnNode.create(name))
  if (rows !== undefined && ValuesNode.is(rows)) {
    const at = given < 0 ? names.length : given
    return { columns, values: ValuesNode.create(rows.values.map((row) => stampRow(row, { at, organizationId }))) }
  }
  if (rows !== undefined && SelectQueryNode.is(rows)) {
    if (given >= 0) throw new ScopeRefused(`A scoped insert from a select leaves out ${OWNER}`)
    return { columns, values: stampSelect(rows, organizationId) }
  }
  throw new ScopeRefused('A scoped insert takes rows or a select')
}

export function isOwnValue(value: OperationNode, organizationId: string): boolean {
  return ValueNode.is(value) && value.value === organizationId
}

function stampRow(
  row: ValueListNode | PrimitiveValueListNode,
  { at, organizationId }: { at: number; organizationId: string },
): ValueListNode {
  const values = PrimitiveValueListNode.is(row) ? row.values.map((value) => ValueNode.create(value)) : row.values
  const given = values[at]
  if (given !== undefined && given.kind !== 'DefaultInsertValueNode' && !isOwnValue(given, organizationId)) {
    throw new ScopeRefused('A row cannot be written for another organization')
  }
  return ValueListNode.create(values.toSpliced(at, 1, ValueNode.create(organizationId)))
}

function stampSelect(select: SelectQueryNode, organizationId: string): SelectQueryNode {
  const rows = IdentifierNode.create('scoped_rows')
  const owner = CastNode.create(ValueNode.create(organizationId), DataTypeNode.create('uuid'))
  return {
    kind: 'SelectQueryNode',
    from: FromNode.create([AliasNode.create(select, rows)]),
    selections: [
      SelectionNode.createSelectAllFromTable(TableNode.create(rows.name)),
      SelectionNode.create(AliasNode.create(owner, IdentifierNode.create(OWNER))),
    ],
  }
}
