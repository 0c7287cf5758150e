import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { mayReadQuestion } from './visibility.ts'

const named = { approvers: ['finance', 'user-7'], startedById: 'user-1' }

describe('what a question is about', () => {
  test.each([
    ['an owner', { id: 'user-9', roles: ['owner'] }, true],
    ['whoever started the run', { id: 'user-1', roles: ['member'] }, true],
    ['a named person', { id: 'user-7', roles: ['member'] }, true],
    ['a named role', { id: 'user-8', roles: ['finance'] }, true],
    ['another approver', { id: 'user-9', roles: ['approver'] }, false],
    ['a viewer', { id: 'user-9', roles: ['viewer'] }, false],
  ])('is read by %s: %s', (_who, who, may) => {
    expect(mayReadQuestion(who, named)).toBe(may)
  })

  test('is read by every approver where the rule names nobody, and by no mere viewer', () => {
    const anybody = { approvers: [], startedById: 'user-1' }
    expect(mayReadQuestion({ id: 'user-9', roles: ['approver'] }, anybody)).toBe(true)
    expect(mayReadQuestion({ id: 'user-9', roles: ['viewer'] }, anybody)).toBe(false)
  })

  test('is never hidden from whoever may answer it', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.string(), (roles, id) => {
        for (const approver of [id, ...roles]) {
          expect(mayReadQuestion({ id, roles }, { approvers: [approver], startedById: 'somebody else' })).toBe(true)
        }
      }),
    )
  })
})
