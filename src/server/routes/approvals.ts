import { createRoute, z } from '@hono/zod-openapi'
import type { AnswerOutcome, ApprovalAnswer } from '../../approvals/service.ts'
import type { Approval } from '../../approvals/approval-store.ts'
import type { StaleReason } from '../../decision/staleness.ts'
import type { Identity } from '../../storage/identity-store.ts'
import type { JsonValue } from '../../tools/json.ts'
import type { App, RouteDependencies } from '../app-env.ts'
import { requires } from '../auth.ts'
import { approvalJson } from '../json.ts'
import { HttpProblem, unknownId } from '../problems.ts'
import { ApprovalSchema, ApprovalState, ApproveBody, IdParam, listOf, PageQuery, RejectBody } from '../schemas.ts'
import { answers, jsonBody, router } from './shapes.ts'

const list = createRoute({
  method: 'get',
  path: '/approvals',
  summary: 'Questions for a person, oldest first',
  middleware: requires('approvals.read'),
  request: { query: PageQuery.extend({ state: ApprovalState.optional(), runId: z.uuid().optional() }) },
  responses: answers(200, 'A page of approvals', listOf(ApprovalSchema)),
})

const get = createRoute({
  method: 'get',
  path: '/approvals/{id}',
  summary: 'One approval. Reading never decides.',
  middleware: requires('approvals.read'),
  request: { params: IdParam },
  responses: answers(200, 'The approval', ApprovalSchema),
})

const approve = createRoute({
  method: 'post',
  path: '/approvals/{id}/approve',
  summary: 'Allow exactly the call with these arguments; on a question about an outcome, say which it was',
  middleware: requires('approvals.answer'),
  request: { params: IdParam, body: jsonBody(ApproveBody) },
  responses: answers(200, 'The decided approval', ApprovalSchema),
})

const reject = createRoute({
  method: 'post',
  path: '/approvals/{id}/reject',
  summary: 'Refuse the call; on a question about an outcome, leave it as it is. May stop the run too.',
  middleware: requires('approvals.answer'),
  request: { params: IdParam, body: jsonBody(RejectBody) },
  responses: answers(200, 'The decided approval', ApprovalSchema),
})

export function approvalRoutes({ core }: RouteDependencies): App {
  const { approvals } = core
  const routes = router()
  routes.openapi(list, async (c) => {
    const { state, runId, limit, cursor } = c.req.valid('query')
    const filter = {
      limit,
      cursor: cursor ?? null,
      ...(state === undefined ? {} : { state }),
      ...(runId === undefined ? {} : { runId }),
    }
    const reader = c.get('identity')
    const page = await approvals.list(reader.organizationId, filter)
    const items = page.items.map((approval) => approvalJson(approval, reader))
    return c.json({ items, nextCursor: page.nextCursor }, 200)
  })
  routes.openapi(get, async (c) => {
    const approval = await approvals.get(c.get('identity').organizationId, c.req.valid('param').id)
    if (approval === null) throw unknownApproval()
    return c.json(approvalJson(approval, c.get('identity')), 200)
  })
  routes.openapi(approve, async (c) => {
    const { outcome, ...body } = c.req.valid('json')
    const answer = answerOf(c.get('identity'), c.req.valid('param').id, body)
    const answered = decided(await approvals.approve(outcome === undefined ? answer : { ...answer, outcome }))
    return c.json(approvalJson(answered, c.get('identity')), 200)
  })
  routes.openapi(reject, async (c) => {
    const { stopRun, ...body } = c.req.valid('json')
    const identity = c.get('identity')
    const answer = answerOf(identity, c.req.valid('param').id, body)
    const answered = decided(await approvals.reject({ ...answer, stopRun: stopRun === true }))
    return c.json(approvalJson(answered, identity), 200)
  })
  return routes
}

function answerOf(
  identity: Identity,
  approvalId: string,
  body: { argumentsHash: string; note?: string | undefined },
): ApprovalAnswer {
  const { organizationId, actor, roles } = identity
  return {
    organizationId,
    approvalId,
    argumentsHash: body.argumentsHash,
    decider: { actor, roles },
    note: body.note ?? null,
  }
}

/** @throws HttpProblem for everything that is not the answer taking effect */
function decided(outcome: AnswerOutcome): Approval {
  switch (outcome.kind) {
    case 'answered':
      return outcome.approval
    case 'not_found':
      throw unknownApproval()
    case 'already_decided':
      throw alreadyDecided(outcome)
    case 'expired':
      throw conflict('expired', expired(outcome.at), { expiresAt: outcome.at.toISOString() })
    case 'stale':
      throw conflict(outcome.reason, stale(outcome.reason), { stale: true })
    case 'hash_mismatch':
      throw conflict('hash_mismatch', OTHER_ARGUMENTS, { argumentsHash: outcome.argumentsHash })
    case 'not_allowed':
      throw new HttpProblem({ code: 'denied', ...NOT_ALLOWED[outcome.reason], extra: { reason: outcome.reason } })
    case 'outcome_required':
      throw new HttpProblem({
        code: 'invalid_input',
        detail: 'nobody knows whether this call took effect, so a plain yes says nothing',
        remedy: 'send outcome: "arrived" or "send_again", or reject to leave it',
        extra: { reason: 'outcome_required' },
      })
  }
}

const OTHER_ARGUMENTS: Words = {
  detail: 'these are not the arguments of the call',
  remedy: 'read the approval again and send the argumentsHash it shows',
}

function expired(at: Date): Words {
  return {
    detail: `the time to answer ended at ${at.toISOString()}`,
    remedy: 'nothing was done; the run goes on without the call',
  }
}

function stale(reason: StaleReason): Words {
  return {
    detail: `${STALE[reason]}, so the approval was closed unanswered`,
    remedy: 'nothing was done; the run will ask again if the call still makes sense',
  }
}

const STALE: Readonly<Record<StaleReason, string>> = {
  tool_changed: 'the tool has another contract now',
  tool_unavailable: 'the tool is switched off or gone',
  grant_withdrawn: 'the agent may no longer use the tool',
  connection_changed: 'the connection can no longer be used',
  run_ended: 'the run has ended',
}

const NOT_ALLOWED = {
  own_run: {
    detail: 'you started this run, and may not decide on its calls',
    remedy: 'let somebody else decide, or switch selfApproval on for the organization',
  },
  not_an_approver: { detail: 'the rule names other approvers', remedy: 'let one of them decide' },
} as const

function alreadyDecided({ state, by, at }: Extract<AnswerOutcome, { kind: 'already_decided' }>): HttpProblem {
  const who = by === null ? '' : ` by ${by.name}`
  const when = at === null ? '' : ` at ${at.toISOString()}`
  const words = {
    detail: `it was ${state === 'stale' ? 'closed as stale' : state}${who}${when}`,
    remedy: 'nothing was done now; that answer stands',
  }
  const decidedBy = by === null ? null : { ...by }
  return conflict('already_decided', words, { state, decidedBy, decidedAt: at?.toISOString() ?? null })
}

interface Words {
  readonly detail: string
  readonly remedy: string
}

function conflict(reason: string, words: Words, extra: Readonly<Record<string, JsonValue>>): HttpProblem {
  return new HttpProblem({ code: 'conflict', ...words, extra: { reason, ...extra } })
}

function unknownApproval(): HttpProblem {
  return unknownId('approval', 'take the id from GET /api/v1/approvals')
}
