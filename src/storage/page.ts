import type { Page } from '../runs/run-store.ts'

/** Cuts a list read with one row too many into a page; the cursor is the id of its last row. */
export function pageOf<T extends { readonly id: string }>(rows: readonly T[], limit: number): Page<T> {
  const items = rows.slice(0, limit)
  return { items, nextCursor: rows.length > limit ? (items.at(-1)?.id ?? null) : null }
}
