import type { AnswerOutcome, ApprovalsService } from '../approvals/service.ts'
import type { Tell } from './telling.ts'
import { withVerbs } from './with-verbs.ts'

/** Tells how questions are answered. */
export function observedApprovals(approvals: ApprovalsService, tell: Tell): ApprovalsService {
  const told = (outcome: AnswerOutcome): AnswerOutcome => {
    if (outcome.kind !== 'answered') return outcome
    const { organizationId, runId, tool, state, requestedAt, decidedAt } = outcome.approval
    const waitedMs = Math.max(0, (decidedAt ?? new Date()).getTime() - requestedAt.getTime())
    tell({ kind: 'question_answered', organizationId, runId, tool, state, waitedMs })
    return outcome
  }
  return withVerbs(approvals, {
    approve: async (answer) => told(await approvals.approve(answer)),
    reject: async (answer) => told(await approvals.reject(answer)),
    async expireDue() {
      const count = await approvals.expireDue()
      if (count > 0) tell({ kind: 'questions_expired', count })
      return count
    },
  })
}
