import type { HunterClient } from './hunter-client.ts'

/*
 * A client in a dry run makes addresses and companies up, in the shape of real ones. None may reach a model or a bill, so
 * each tool looks twice: at the client, before anything is spent, and at the row, for a client that does not say so.
 */

/** @throws Error before the call, for a client that reaches no vendor */
export function refuseDryRun(client: HunterClient, tool: string): void {
  if (client.dryRun ?? false) throw dryRunError(tool)
}

/** @throws Error before the meter, for a row that carries the mark of a made-up one */
export function refuseDryRunRow(row: unknown, tool: string): void {
  if (typeof row !== 'object' || row === null || !Object.hasOwn(row, '_dry_run')) return
  if (Reflect.get(row, '_dry_run') !== false) throw dryRunError(tool)
}

function dryRunError(tool: string): Error {
  return new Error(`${tool}: the Hunter client is in a dry run and makes its answers up; give it a client that asks`)
}
