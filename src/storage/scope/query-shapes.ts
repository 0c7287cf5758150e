import type { DeleteQueryNode, InsertQueryNode, OnConflictNode, SelectQueryNode, UpdateQueryNode } from 'kysely'
import { isFlag, type Role } from './grammar.ts'

/** Properties of a query that the transform does not treat one by one; complete by their types, as the grammar is. */
type Rest<Node, Treated extends keyof Node> = Record<Exclude<keyof Node, 'kind' | Treated>, Role>

export const SELECT: Rest<SelectQueryNode, 'with' | 'from' | 'joins'> = {
  selections: 'nodes',
  distinctOn: 'nodes',
  groupBy: 'node',
  orderBy: 'node',
  where: 'node',
  frontModifiers: 'nodes',
  endModifiers: 'nodes',
  limit: 'node',
  offset: 'node',
  having: 'node',
  setOperations: 'nodes',
  explain: 'absent',
  fetch: 'absent',
  top: 'absent',
}

export const INSERT: Rest<InsertQueryNode, 'with' | 'into' | 'columns' | 'values' | 'onConflict'> = {
  returning: 'node',
  onDuplicateKey: 'absent',
  orAction: 'absent',
  replace: 'absent',
  explain: 'absent',
  defaultValues: 'absent',
  endModifiers: 'absent',
  top: 'absent',
  output: 'absent',
}

export const UPDATE: Rest<UpdateQueryNode, 'with' | 'table' | 'from' | 'joins' | 'where' | 'updates'> = {
  returning: 'node',
  explain: 'absent',
  endModifiers: 'absent',
  limit: 'absent',
  top: 'absent',
  output: 'absent',
  orderBy: 'absent',
}

export const DELETE: Rest<DeleteQueryNode, 'with' | 'from' | 'using' | 'joins' | 'where'> = {
  returning: 'node',
  orderBy: 'absent',
  limit: 'absent',
  explain: 'absent',
  endModifiers: 'absent',
  top: 'absent',
  output: 'absent',
}

export const ON_CONFLICT: Rest<OnConflictNode, 'updates' | 'updateWhere'> = {
  columns: 'nodes',
  constraint: 'node',
  indexExpression: 'node',
  indexWhere: 'node',
  doNothing: isFlag,
}
