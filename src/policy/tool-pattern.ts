/** `*`, or the start of a platform name up to a dot and then `*`. */
const WILDCARD = /^(?:[a-z][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*\.)?\*$/

/** Characters a tool can be called by: remote tools keep the name their server published. */
const NAME = /^[^\s*]{1,200}$/

export function isWildcard(pattern: string): boolean {
  return WILDCARD.test(pattern)
}

/** Whether a stored entry is one this build understands. One it does not understand must not silently match nothing. */
export function isToolPattern(pattern: unknown): pattern is string {
  return typeof pattern === 'string' && pattern.length <= 200 && (isWildcard(pattern) || NAME.test(pattern))
}

/** A wildcard matches everything below its dot: `email.*` matches `email.send`. */
export function matchesTool(pattern: string, tool: string): boolean {
  return isWildcard(pattern) ? tool.startsWith(pattern.slice(0, -1)) : pattern === tool
}
