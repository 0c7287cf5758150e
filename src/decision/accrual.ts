export type AccrualVerdict = 'allow' | 'deny' | 'fault'

/**
 * Compares the spend of the whole run tree with its ceiling: a total against a total, so the ceiling is the frozen
 * budget and never a remainder. An argument that cannot be read is a fault of the deploy, not an empty purse.
 */
export function checkAccrual(spentCents: number | null, maxCostCents: number | null): AccrualVerdict {
  if (spentCents === null || !Number.isFinite(spentCents) || spentCents < 0) return 'fault'
  if (maxCostCents === null) return 'allow'
  if (!Number.isFinite(maxCostCents) || maxCostCents < 0) return 'fault'
  return spentCents < maxCostCents ? 'allow' : 'deny'
}
