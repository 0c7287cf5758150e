import { expect, test } from 'vitest'
import { isRoleMailbox } from './role-mailbox.ts'

test.each([
  'info@sample.test',
  'INFO@sample.test',
  'info+web@sample.test',
  'sales.emea@sample.test',
  'sales-nl@sample.test',
  'no-reply@sample.test',
  'noreply@sample.test',
  'customer.service@sample.test',
  'hr_team@sample.test',
])('%s belongs to a function', (address) => {
  expect(isRoleMailbox(address)).toBe(true)
})

test.each([
  'jo.sample@sample.test',
  'jo@info.test',
  'salesman@sample.test',
  'team4@sample.test',
  'ithamar@sample.test',
  'hrothgar@sample.test',
  'constructor@sample.test',
  'jo+info@sample.test',
  '',
  'info',
])('%j belongs to a person, as far as its spelling says', (address) => {
  expect(isRoleMailbox(address)).toBe(false)
})
