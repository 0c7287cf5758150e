import {
  ColumnNode,
  type Expression,
  type ExpressionBuilder,
  ExpressionWrapper,
  ReferenceNode,
  type SqlBool,
  TableNode,
} from 'kysely'
import type { ToolInvocation } from '../tools/invocation.ts'
import { rootRunOf } from './run-tree.ts'

/** Who wrote a row. */
export interface Provenance {
  readonly runId: string
  readonly rootRunId: string
  readonly tool: string
}

export function provenanceOf(invocation: ToolInvocation, tool: string): Provenance {
  return { runId: invocation.runId, rootRunId: rootRunOf(invocation), tool }
}

/**
 * What a row that a tool makes says about its origin. A run's words are a model's words: they may repeat what a web page
 * or a mail told it, and nobody has looked at them. So a row that a tool writes is never trusted; rows of an import or of
 * a person in the console are.
 */
export function authored({ runId, rootRunId, tool }: Provenance) {
  return {
    written_by_run: runId,
    written_by_root_run: rootRunId,
    written_by_tool: tool,
    created_by_root_run: rootRunId,
    trusted: false,
  }
}

interface Rewriting {
  /** Name of the table without its schema. */
  readonly table: string
  /** Whether everything that is written stands in the row already. */
  readonly unchanged: Expression<SqlBool>
  readonly by: Provenance
}

/**
 * The same of a row that a tool writes again. Content that is already there keeps its author and its trust: who repeats
 * it has not written it.
 */
export function reauthored<DB, TB extends keyof DB>(
  eb: ExpressionBuilder<DB, TB>,
  { table, unchanged, by }: Rewriting,
) {
  const old = <T>(column: string): Expression<T> =>
    new ExpressionWrapper<DB, TB, T>(ReferenceNode.create(ColumnNode.create(column), TableNode.create(table)))
  const kept = <T>(column: string, given: Expression<T>): Expression<T> =>
    eb.case().when(unchanged).then(old<T>(column)).else(given).end()
  return {
    written_by_run: kept<string | null>('written_by_run', eb.val(by.runId)),
    written_by_root_run: kept<string | null>('written_by_root_run', eb.val(by.rootRunId)),
    written_by_tool: kept<string | null>('written_by_tool', eb.val(by.tool)),
    trusted: eb.and([old<SqlBool>('trusted'), unchanged]) as Expression<boolean>,
    updated_at: kept<Date>('updated_at', eb.fn<Date>('now')),
  }
}
