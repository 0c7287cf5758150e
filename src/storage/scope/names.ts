import { type AliasNode, ColumnNode, IdentifierNode, type OperationNode, ReferenceNode, TableNode } from 'kysely'
import { ScopeRefused } from '../errors.ts'
import { isNode } from './grammar.ts'
import { isScopedTable } from './tables.ts'

/** The one table that a query writes to. */
export interface Target {
  readonly node: TableNode | AliasNode
  /** What the rest of the query calls it. */
  readonly name: string
}

export function isIdentifier(node: unknown): node is IdentifierNode {
  return isNode(node) && IdentifierNode.is(node) && typeof node.name === 'string'
}

export function updatedColumn(node: OperationNode): string {
  if (ColumnNode.is(node)) return node.column.name
  if (ReferenceNode.is(node) && ColumnNode.is(node.column)) return node.column.column.name
  throw new ScopeRefused('A scoped update sets columns by their names')
}

export function knownTable(node: TableNode): TableNode {
  const { schema, identifier } = node.table
  if (schema === undefined) throw unknownTable(identifier.name)
  if (!isScopedTable(schema.name, identifier.name)) throw unknownTable(`${schema.name}.${identifier.name}`)
  return TableNode.createWithSchema(schema.name, identifier.name)
}

export function unknownTable(name: string): ScopeRefused {
  return new ScopeRefused(
    `${name} is no table of an organization; tables are named with their schema, as in public.people`,
  )
}
