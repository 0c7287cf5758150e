/** What all runs of an organization cost today (UTC), and what they may; null where it set no ceiling. In cents. */
export type DayCost = (
  organizationId: string,
) => Promise<{ readonly spentCents: number; readonly maxCents: number } | null>

/** Written as “not below”, so that a figure that is no number stops the run. */
export function isDaySpent(day: Awaited<ReturnType<DayCost>>): boolean {
  return day !== null && !(day.spentCents < day.maxCents)
}
