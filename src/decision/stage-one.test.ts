import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { checkAuthority } from './stage-one.ts'

describe('authority', () => {
  test.each([
    ['email.send', ['crm.find', 'email.send'], true, 'held'],
    ['email.send', ['crm.find'], true, 'not_in_scope'],
    ['email.send', [], true, 'not_in_scope'],
    ['email.send', ['email.send'], false, 'grant_withdrawn'],
    ['email.send', ['email.*'], true, 'not_in_scope'],
    ['email.send', ['*'], true, 'not_in_scope'],
    ['email_send', ['email.send'], true, 'not_in_scope'],
    ['Email.send', ['email.send'], true, 'not_in_scope'],
    ['constructor', ['email.send'], true, 'not_in_scope'],
  ] as const)('over %s with scopes %j and a grant that holds %j: %s', (...[tool, scopes, granted, verdict]) => {
    expect(checkAuthority(tool, scopes, granted)).toBe(verdict)
  })

  test('is held only by a name that is in scope while its grant holds', () => {
    const name = fc.constantFrom('email.send', 'email.archive', 'crm.find')
    fc.assert(
      fc.property(name, fc.array(name), fc.boolean(), (tool, scopes, granted) => {
        expect(checkAuthority(tool, scopes, granted) === 'held').toBe(granted && scopes.some((scope) => scope === tool))
      }),
    )
  })
})
