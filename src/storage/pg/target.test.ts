import { expect, test } from 'vitest'
import { DatabaseUnavailable } from '../errors.ts'
import { describeTarget, readTarget, unavailable } from './target.ts'

test.each([
  ['postgres://u:p@db.example.com:6432/app', 'db.example.com:6432/app'],
  ['postgresql://u@db/app?sslmode=require', 'db:5432/app'],
  ['postgres://u:p%40%2F@[::1]/a%20b', '[::1]:5432/a b'],
  ['postgres://u@localhost', 'localhost:5432/u'],
  ['postgres:///app?host=/var/run/postgresql&user=u', '/var/run/postgresql/app'],
])('%s points to %s', (url, where) => {
  expect(describeTarget(readTarget(url))).toBe(`PostgreSQL at ${where}`)
})

test.each([
  '',
  'db.example.com:5432/app',
  'mysql://u:hunter2@db/app',
  'postgres://u:hunter2/word@db/app',
  'postgres://u:hunter2@db:port/app',
  'postgres://u:hunter2@db/%E0%A4%A',
])('%j is refused with the right form, and without the password', (url) => {
  const read = (): unknown => readTarget(url)
  expect(read).toThrow(DatabaseUnavailable)
  expect(read).toThrow(/postgres:\/\/user:password@host:5432\/database/)
  expect(read).not.toThrow(/hunter2/)
})

test.each([
  [Object.assign(new Error('x'), { code: 'ECONNREFUSED' }), 'refused'],
  [new AggregateError([Object.assign(new Error('x'), { code: 'ECONNREFUSED' })]), 'refused'],
  [Object.assign(new Error('x'), { code: 'ENOTFOUND' }), 'unknown_host'],
  [new Error('timeout exceeded when trying to connect'), 'timeout'],
  [new Error('The server does not support SSL connections'), 'tls'],
  [Object.assign(new Error('x'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), 'tls'],
  [new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string'), 'authentication'],
  [Object.assign(new Error('x'), { code: '53300' }), 'busy'],
  [Object.assign(new Error('x'), { code: 'constructor' }), 'unreachable'],
  ['not even an error', 'unreachable'],
])('%s is %s, and says what to do', (cause, reason) => {
  const error = unavailable({ host: 'db:5432', database: 'app', user: 'u' }, cause)
  expect(error.reason).toBe(reason)
  expect(error.message).toMatch(/^PostgreSQL at db:5432\/app [^.]+\. [A-Z].+\.$/)
  expect(error.cause).toBe(cause)
})
