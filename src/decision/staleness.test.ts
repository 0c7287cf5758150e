import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { ApprovalState } from './coverage.ts'
import type { AnswerContext, AnswerSubject, AnswerVerdict } from './staleness.ts'
import { judgeAnswer } from './staleness.ts'

const NOW = new Date('2026-01-01T12:00:00Z')

const SUBJECT: AnswerSubject = {
  state: 'pending',
  argumentsHash: 'h',
  expiresAt: new Date(NOW.getTime() + 1),
  toolVersion: 2,
  connectionId: 'c1',
  startedByActorId: 'starter',
  approvers: [],
}

const CONTEXT: AnswerContext = {
  now: NOW,
  argumentsHash: 'h',
  liveToolVersion: 2,
  toolEnabled: true,
  granted: true,
  connectionUsable: true,
  runOpen: true,
  deciderId: 'decider',
  deciderRoles: ['approver'],
  selfApproval: false,
}

function judge(
  subject: Partial<AnswerSubject>,
  context: Partial<AnswerContext>,
  answer: 'approved' | 'rejected' = 'approved',
): AnswerVerdict {
  return judgeAnswer({ ...SUBJECT, ...subject }, { ...CONTEXT, ...context }, answer)
}

test('an open question with an unmoved target takes either answer', () => {
  expect(judge({}, {}, 'approved')).toEqual({ kind: 'ok' })
  expect(judge({}, {}, 'rejected')).toEqual({ kind: 'ok' })
})

describe('either answer is refused', () => {
  const states: readonly ApprovalState[] = ['approved', 'rejected', 'expired', 'cancelled', 'stale']
  const refusals: readonly (readonly [string, Partial<AnswerSubject>, Partial<AnswerContext>, AnswerVerdict])[] = [
    ...states.map((state) => [`when it is ${state} already`, { state }, {}, { kind: 'decided', state }] as const),
    ['when its time is over', { expiresAt: NOW }, {}, { kind: 'expired' }],
    ['to who started the run', {}, { deciderId: 'starter' }, { kind: 'not_allowed', reason: 'own_run' }],
    [
      'to who is not among the approvers',
      { approvers: ['owner', 'u9'] },
      {},
      { kind: 'not_allowed', reason: 'not_an_approver' },
    ],
    ['when other arguments were looked at', {}, { argumentsHash: 'other' }, { kind: 'hash_mismatch' }],
    ['when the run has ended', {}, { runOpen: false }, { kind: 'stale', reason: 'run_ended' }],
  ]
  test.each(refusals)('%s', (...[, subject, context, verdict]) => {
    expect(judge(subject, context, 'approved')).toEqual(verdict)
    expect(judge(subject, context, 'rejected')).toEqual(verdict)
  })
})

describe('who may answer', () => {
  test.each([
    [{ approvers: ['decider'] }, {}],
    [{ approvers: ['u9', 'approver'] }, {}],
    [{ approvers: [] }, { deciderRoles: [] }],
    [{}, { deciderId: 'starter', selfApproval: true }],
  ])('%j with %j', (subject, context) => {
    expect(judge(subject, context)).toEqual({ kind: 'ok' })
  })

  test('an organization that lets starters decide still asks for an approver where a rule does', () => {
    expect(judge({ approvers: ['owner'] }, { deciderId: 'starter', selfApproval: true })).toEqual({
      kind: 'not_allowed',
      reason: 'not_an_approver',
    })
  })
})

describe('a target that moved', () => {
  test.each([
    [{ liveToolVersion: null }, 'tool_unavailable'],
    [{ toolEnabled: false }, 'tool_unavailable'],
    [{ liveToolVersion: 3 }, 'tool_changed'],
    [{ granted: false }, 'grant_withdrawn'],
    [{ connectionUsable: false }, 'connection_changed'],
  ] as const)('%j makes an approval stale (%s), and a rejection harmless', (context, reason) => {
    expect(judge({}, context, 'approved')).toEqual({ kind: 'stale', reason })
    expect(judge({}, context, 'rejected')).toEqual({ kind: 'ok' })
  })
})

test('an approval passes only when every single condition holds', () => {
  const subject = fc.record({
    state: fc.constantFrom<ApprovalState>('pending', 'pending', 'pending', 'approved'),
    expiresAt: fc.constantFrom(new Date(NOW.getTime() + 1), NOW),
    approvers: fc.constantFrom<readonly string[]>([], ['decider'], ['approver'], ['owner']),
  })
  const context = fc.record({
    argumentsHash: fc.constantFrom('h', 'h', 'other'),
    liveToolVersion: fc.constantFrom(2, 2, 3, null),
    toolEnabled: fc.boolean(),
    granted: fc.boolean(),
    connectionUsable: fc.boolean(),
    runOpen: fc.boolean(),
    deciderId: fc.constantFrom('decider', 'starter'),
    selfApproval: fc.boolean(),
  })
  fc.assert(
    fc.property(subject, context, (asked, given) => {
      const may =
        (given.deciderId !== 'starter' || given.selfApproval) &&
        (asked.approvers.length === 0 ||
          asked.approvers.includes(given.deciderId) ||
          asked.approvers.includes('approver'))
      const fresh =
        given.liveToolVersion === 2 && given.toolEnabled && given.granted && given.connectionUsable && given.runOpen
      const open = asked.state === 'pending' && asked.expiresAt > NOW && given.argumentsHash === 'h'
      expect(judge(asked, given).kind === 'ok').toBe(open && may && fresh)
    }),
    { numRuns: 2000 },
  )
})
