import {
  AliasNode,
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  type ColumnUpdateNode,
  type CommonTableExpressionNode,
  type DeleteQueryNode,
  FromNode,
  IdentifierNode,
  type InsertQueryNode,
  type JoinNode,
  type OnConflictNode,
  type OperationNode,
  OperatorNode,
  ParensNode,
  type RawNode,
  ReferenceNode,
  SelectAllNode,
  SelectionNode,
  SelectQueryNode,
  TableNode,
  type UpdateQueryNode,
  type UsingNode,
  ValueNode,
  WhereNode,
  type WithNode,
} from 'kysely'
import { ScopeRefused } from '../errors.ts'
import { isFlag, isNode, isSafeRaw, passiveShape, type Role, type Shape, words } from './grammar.ts'
import { isIdentifier, knownTable, type Target, unknownTable, updatedColumn } from './names.ts'
import { DELETE, INSERT, ON_CONFLICT, SELECT, UPDATE } from './query-shapes.ts'
import { isOwnValue, stamp } from './stamp.ts'
import { isBareTableName, OWNER } from './tables.ts'

/** Names of the common table expressions that PostgreSQL sees at this place. */
type Visible = ReadonlySet<string>

const NOTHING_VISIBLE: Visible = new Set()

const QUERIES: ReadonlySet<string> = new Set(words('SelectQueryNode InsertQueryNode UpdateQueryNode DeleteQueryNode'))

const JOINS: ReadonlySet<string> = new Set(
  words('InnerJoin LeftJoin RightJoin FullJoin CrossJoin LateralInnerJoin LateralLeftJoin LateralCrossJoin'),
)

/**
 * Rewrites a query so that it reads and writes rows of one organization only. Every table that is read becomes a
 * filtered subselect, which is right under every kind of join, and which PostgreSQL flattens; the target of an update
 * or delete gets the filter in its WHERE; inserts are stamped. A node, property or raw text that is not known to be
 * harmless is refused: whatever Kysely learns to express later stays out until it is looked at.
 */
export class ScopeTransform {
  readonly #organizationId: string
  readonly #done = new WeakSet<OperationNode>()

  constructor(organizationId: string) {
    this.#organizationId = organizationId
  }

  query<Node extends OperationNode>(root: Node): Node {
    if (!QUERIES.has(root.kind)) throw new ScopeRefused(`A scoped handle does not run a ${root.kind}`)
    const result = this.#visit(root, NOTHING_VISIBLE)
    this.#done.add(result)
    return result
  }

  /** Whether a query came out of `query` as it is. */
  isScoped(root: OperationNode): boolean {
    return this.#done.has(root)
  }

  #visit<Node extends OperationNode>(node: Node, visible: Visible): Node
  #visit(node: OperationNode, visible: Visible): OperationNode {
    // A query that was built on the scoped handle and became a part of another one.
    if (this.#done.has(node)) return node
    const kind: string = node.kind
    switch (kind) {
      case 'SelectQueryNode':
        return this.#select(node as SelectQueryNode, visible)
      case 'InsertQueryNode':
        return this.#insert(node as InsertQueryNode, visible)
      case 'UpdateQueryNode':
        return this.#update(node as UpdateQueryNode, visible)
      case 'DeleteQueryNode':
        return this.#delete(node as DeleteQueryNode, visible)
      case 'RawNode':
        return this.#raw(node as RawNode, visible)
      case 'ReferenceNode':
        return this.#reference(node as ReferenceNode)
      case 'TableNode':
        // A row of the query, as in `to_json(p)`: an expression cannot reach a table that the query does not read.
        return TableNode.create((node as TableNode).table.identifier.name)
      case 'AliasNode':
        return this.#shaped(node, { shape: { node: 'node', alias: isIdentifier }, visible })
      default:
        return this.#passive(node, visible)
    }
  }

  #passive(node: OperationNode, visible: Visible): OperationNode {
    const shape = passiveShape(node.kind)
    if (shape === undefined) throw new ScopeRefused(`A scoped query cannot hold a ${node.kind}`)
    return this.#shaped(node, { shape, visible })
  }

  /** Copies what the shape knows and refuses what it does not. */
  #shaped<Node extends OperationNode>(node: Node, { shape, visible }: { shape: Shape; visible: Visible }): Node {
    const copy: Record<string, unknown> = {}
    for (const [property, value] of Object.entries(node)) {
      if (value === undefined) continue
      if (property === 'kind') copy[property] = value
      else copy[property] = this.#property({ of: node, property, value, role: shape[property] }, visible)
    }
    return copy as unknown as Node
  }

  #property(
    given: { of: OperationNode; property: string; value: unknown; role: Role | undefined },
    visible: Visible,
  ): unknown {
    const { value, role } = given
    if (role === 'value') return value
    if (role === 'name' && typeof value === 'string') return value
    if (role === 'node' && isNode(value)) return this.#visit(value, visible)
    if (role === 'nodes' && Array.isArray(value)) return this.#visitAll(value, visible)
    if (typeof role === 'function' && role(value)) return value
    if (role === 'absent' && value === false) return value
    const shown = typeof value === 'string' ? `: ${JSON.stringify(value)}` : ''
    throw new ScopeRefused(`A scoped query cannot hold a ${given.of.kind} with this ${given.property}${shown}`)
  }

  #visitAll(nodes: readonly unknown[], visible: Visible): OperationNode[] {
    return nodes.map((node) => {
      if (!isNode(node)) throw new ScopeRefused('A scoped query holds something that is no node')
      return this.#visit(node, visible)
    })
  }

  // Queries

  #select(node: SelectQueryNode, outer: Visible): SelectQueryNode {
    const { with: withNode, from, joins, ...rest } = node
    const { expressions, visible } = this.#with(withNode, outer)
    return {
      ...this.#shaped(rest, { shape: SELECT, visible }),
      ...expressions,
      ...(from === undefined ? {} : { from: this.#from(from, visible) }),
      ...(joins === undefined ? {} : { joins: joins.map((join) => this.#join(join, visible)) }),
    }
  }

  #insert(node: InsertQueryNode, outer: Visible): InsertQueryNode {
    const { with: withNode, into, columns, values, onConflict, ...rest } = node
    const { expressions, visible } = this.#with(withNode, outer)
    const target = this.#target(into)
    return {
      ...this.#shaped(rest, { shape: INSERT, visible }),
      ...expressions,
      into: target.node as TableNode,
      ...stamp({ columns: columns ?? [], rows: values && this.#visit(values, visible) }, this.#organizationId),
      ...(onConflict === undefined ? {} : { onConflict: this.#onConflict(onConflict, { target, visible }) }),
    }
  }

  #update(node: UpdateQueryNode, outer: Visible): UpdateQueryNode {
    const { with: withNode, table, from, joins, where, updates, ...rest } = node
    const { expressions, visible } = this.#with(withNode, outer)
    const target = this.#target(table)
    return {
      ...this.#shaped(rest, { shape: UPDATE, visible }),
      ...expressions,
      table: target.node,
      ...(from === undefined ? {} : { from: this.#from(from, visible) }),
      ...(joins === undefined ? {} : { joins: joins.map((join) => this.#join(join, visible)) }),
      ...(updates === undefined ? {} : { updates: updates.map((update) => this.#columnUpdate(update, visible)) }),
      where: this.#owned({ target, where, visible }),
    }
  }

  #delete(node: DeleteQueryNode, outer: Visible): DeleteQueryNode {
    const { with: withNode, from, using, joins, where, ...rest } = node
    const { expressions, visible } = this.#with(withNode, outer)
    if (from.froms.length !== 1) throw new ScopeRefused('A scoped delete has one table')
    const target = this.#target(from.froms[0])
    return {
      ...this.#shaped(rest, { shape: DELETE, visible }),
      ...expressions,
      from: FromNode.create([target.node]),
      ...(using === undefined ? {} : { using: this.#using(using, visible) }),
      ...(joins === undefined ? {} : { joins: joins.map((join) => this.#join(join, visible)) }),
      where: this.#owned({ target, where, visible }),
    }
  }

  // Where rows come from

  #from(node: FromNode, visible: Visible): FromNode {
    return FromNode.create(node.froms.map((source) => this.#source(source, visible)))
  }

  #using(node: UsingNode, visible: Visible): UsingNode {
    return { kind: 'UsingNode', tables: node.tables.map((source) => this.#source(source, visible)) }
  }

  #join({ joinType, table, on, ...rest }: JoinNode, visible: Visible): JoinNode {
    if (!JOINS.has(joinType)) throw new ScopeRefused(`A scoped query cannot join by ${joinType}`)
    return {
      ...this.#shaped(rest as JoinNode, { shape: {}, visible }),
      joinType,
      table: this.#source(table, visible),
      ...(on === undefined ? {} : { on: this.#visit(on, visible) }),
    }
  }

  #source(node: OperationNode, visible: Visible): OperationNode {
    if (TableNode.is(node)) return this.#table(node, { visible })
    if (AliasNode.is(node) && isIdentifier(node.alias)) {
      if (TableNode.is(node.node)) return this.#table(node.node, { visible, alias: node.alias })
      if (SelectQueryNode.is(node.node)) return AliasNode.create(this.#select(node.node, visible), node.alias)
    }
    throw new ScopeRefused(
      'A scoped query reads tables, subselects and common table expressions: raw SQL, functions and lists cannot stand in their place',
    )
  }

  #table(node: TableNode, { visible, alias }: { visible: Visible; alias?: IdentifierNode }): OperationNode {
    const { schema, identifier } = node.table
    if (schema === undefined) {
      if (!visible.has(identifier.name)) throw unknownTable(identifier.name)
      return alias === undefined ? node : AliasNode.create(node, alias)
    }
    const table = knownTable(node)
    const rows: SelectQueryNode = {
      kind: 'SelectQueryNode',
      from: FromNode.create([table]),
      selections: [SelectionNode.createSelectAll()],
      where: WhereNode.create(this.#isOwn()),
    }
    return AliasNode.create(rows, alias ?? IdentifierNode.create(identifier.name))
  }

  /** PostgreSQL's rule: an expression sees those before it and, if recursive, itself; the query and what is in it see all. */
  #with(node: WithNode | undefined, outer: Visible): { expressions: { with?: WithNode }; visible: Visible } {
    if (node === undefined) return { expressions: {}, visible: outer }
    const visible = new Set(outer)
    const { expressions, recursive, ...rest } = node
    const scoped = expressions.map((expression) => {
      const name = expression.name.table.table.identifier.name
      if (isBareTableName(name))
        throw new ScopeRefused(`A common table expression cannot be named like the table ${name}`)
      if (recursive === true) visible.add(name)
      const result = this.#commonTableExpression(expression, new Set(visible))
      visible.add(name)
      return result
    })
    const copy: WithNode = {
      ...this.#shaped(rest as WithNode, { shape: {}, visible }),
      expressions: scoped,
      ...(recursive === undefined ? {} : { recursive }),
    }
    return { expressions: { with: copy }, visible }
  }

  #commonTableExpression(node: CommonTableExpressionNode, visible: Visible): CommonTableExpressionNode {
    if (!QUERIES.has(node.expression.kind)) {
      throw new ScopeRefused(`A common table expression of a scoped query cannot be a ${node.expression.kind}`)
    }
    const shape: Shape = { materialized: isFlag, expression: 'node', name: isNode }
    this.#shaped(node.name, { shape: { table: 'node', columns: 'nodes' }, visible })
    return this.#shaped(node, { shape, visible })
  }

  // Where rows go

  #target(node: OperationNode | undefined): Target {
    if (node !== undefined && TableNode.is(node)) {
      return { node: knownTable(node), name: node.table.identifier.name }
    }
    if (node !== undefined && AliasNode.is(node) && TableNode.is(node.node) && isIdentifier(node.alias)) {
      return { node: AliasNode.create(knownTable(node.node), node.alias), name: node.alias.name }
    }
    throw new ScopeRefused('A scoped query writes to one table, named as it is')
  }

  #owned(write: { target: Target; where: WhereNode | undefined; visible: Visible }): WhereNode {
    const own = this.#isOwn(write.target.name)
    if (write.where === undefined) return WhereNode.create(own)
    const asked = this.#visit(write.where, write.visible)
    return WhereNode.create(AndNode.create(own, ParensNode.create(asked.where)))
  }

  #isOwn(table?: string): OperationNode {
    const column = ColumnNode.create(OWNER)
    const owner = table === undefined ? column : ReferenceNode.create(column, TableNode.create(table))
    return BinaryOperationNode.create(owner, OperatorNode.create('='), ValueNode.create(this.#organizationId))
  }

  #columnUpdate(node: ColumnUpdateNode, visible: Visible): ColumnUpdateNode {
    const column = updatedColumn(node.column)
    if (column === OWNER && !isOwnValue(node.value, this.#organizationId))
      throw new ScopeRefused('A row cannot move to another organization')
    return { kind: 'ColumnUpdateNode', column: ColumnNode.create(column), value: this.#visit(node.value, visible) }
  }

  #onConflict(node: OnConflictNode, { target, visible }: { target: Target; visible: Visible }): OnConflictNode {
    const { updates, updateWhere, ...rest } = node
    const copy = this.#shaped(rest, { shape: ON_CONFLICT, visible })
    if (updates === undefined && updateWhere === undefined) return copy
    return {
      ...copy,
      updates: (updates ?? []).map((update) => this.#columnUpdate(update, visible)),
      // The row that is in the way may be another organization's.
      updateWhere: this.#owned({ target, where: updateWhere, visible }),
    }
  }

  // Expressions

  #raw(node: RawNode, visible: Visible): OperationNode {
    const [child, ...others] = node.parameters
    const bare = node.sqlFragments.every((fragment) => fragment === '')
    // `sql.ref(…)` and `sql.val(…)` wrap one node in no text at all.
    if (bare && child !== undefined && others.length === 0) return this.#visit(child, visible)
    const [text, ...more] = node.sqlFragments
    if (child === undefined && more.length === 0 && text !== undefined && isSafeRaw(text)) return node
    throw new ScopeRefused(
      'A scoped query takes no raw SQL, since a table could be named in it: use the query builder, or a statement in storage/',
    )
  }

  /** The subselect that stands for a table has its bare name. */
  #reference(node: ReferenceNode): ReferenceNode {
    const table = node.table === undefined ? undefined : TableNode.create(node.table.table.identifier.name)
    if (node.column.kind !== 'SelectAllNode')
      return ReferenceNode.create(ColumnNode.create(node.column.column.name), table)
    if (table === undefined) return { kind: 'ReferenceNode', column: SelectAllNode.create() }
    return ReferenceNode.createSelectAll(table)
  }
}
