/**
 * Stage 1: authority. The name must be among the principal's frozen scopes *and* the grant must still hold now; the
 * invoker has no scope check of its own, so that a scope refusal is a policy decision like any other.
 */
export function checkAuthority(
  tool: string,
  scopes: readonly string[],
  granted: boolean,
): 'held' | 'not_in_scope' | 'grant_withdrawn' {
  if (!scopes.includes(tool)) return 'not_in_scope'
  return granted ? 'held' : 'grant_withdrawn'
}
