import type { Statement } from './database.ts'

const texts = new Map<string, string>()

/**
 * Declares a named statement. Declare at module level: a name stands for one text in the whole program, because
 * a connection keeps the plan of the first text that it saw under the name. Throws on a second text or a bad name.
 */
export function statement(name: string, text: string): Statement {
  // PostgreSQL cuts longer names to 63 bytes without an error, so two of them could become one.
  if (!/^[a-z][a-z0-9_.]{0,62}$/.test(name)) throw new Error(`Bad statement name: ${JSON.stringify(name)}`)
  const known = texts.get(name)
  if (known !== undefined && known !== text) throw new Error(`Two statements are named ${name}`)
  texts.set(name, text)
  return Object.freeze({ name, text })
}

/** A statement whose plan is not kept: for text that is made at run time, which would otherwise pile up on every connection. */
export function unnamed(text: string): Statement {
  return { name: '', text }
}
