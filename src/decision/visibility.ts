/** Who looks at a question, and whose it is. */
export interface Onlooker {
  readonly id: string
  readonly roles: readonly string[]
}

export interface QuestionParties {
  /** User ids or roles the rule names; empty names nobody in particular. */
  readonly approvers: readonly string[]
  readonly startedById: string
}

/**
 * Whether somebody may read what a question is about: its arguments, its preview and its facts. Owners, whoever started
 * the run, and the approvers the rule names; where it names nobody, every approver. Others see that there is a question
 * and what became of it.
 */
export function mayReadQuestion(who: Onlooker, parties: QuestionParties): boolean {
  if (who.roles.includes('owner') || who.id === parties.startedById) return true
  if (parties.approvers.length === 0) return who.roles.includes('approver')
  return parties.approvers.some((named) => named === who.id || who.roles.includes(named))
}
