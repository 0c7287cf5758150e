import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { v7 as uuidv7 } from 'uuid'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type SmtpFaults, type SmtpSimulator, startSmtpServer } from '../../../simulators/smtp-server.ts'
import {
  admitted,
  callHandler,
  callPreview,
  credentialOf,
  invocationOf,
  type TestRun,
  testRun,
} from '../../../test/handler-call.ts'
import { type TestDatabase, testDatabase } from '../../../test/setup/database.ts'
import type { Queryable } from '../../storage/database.ts'
import { scopedDb } from '../../storage/scoped-db.ts'
import type { ToolDeclaration } from '../../tools/declarations.ts'
import { OutcomeUnknownError, ValidationError } from '../../tools/errors.ts'
import type { HandlerContext } from '../../tools/invocation.ts'
import type { JsonObject } from '../../tools/json.ts'
import { buildRegistry } from '../../tools/registry.ts'
import type { PeopleStore } from '../crm/people.ts'
import { scopedPeople } from '../crm/scoped-people.ts'
import { recipientIsNew } from './recipients.ts'
import { SEND_LIMITS } from './smtp-transport.ts'
import { emailTools, messageIdFor, SEND_TIMEOUT_S } from './tools.ts'

let db: TestDatabase
let server: SmtpSimulator
let people: PeopleStore
let send: ToolDeclaration
/** What the tool asked of the database. */
let statements: string[]

beforeAll(async () => {
  db = await testDatabase()
  const watched: Queryable = {
    kysely: db.database.kysely,
    query: (statement, values) => {
      statements.push(statement.text)
      return db.database.query(statement, values)
    },
  }
  people = scopedPeople((organizationId) => scopedDb(watched, organizationId))
  send = emailTools({ recipients: people })[0]!
})
afterAll(() => db.close())
beforeEach(async () => {
  statements = []
  server = await startSmtpServer({ outboxDir: await mkdtemp(join(tmpdir(), 'bailiff-outbox-')) })
})
afterEach(async () => {
  await server.close()
  await rm(server.outboxDir, { recursive: true })
})

const MAIL = { to: ['jo@acme.test'], subject: 'Hello', body: 'Hi Jo' }

function context(part: Partial<HandlerContext> = {}): Partial<HandlerContext> {
  const settings = {
    host: server.host,
    port: String(server.port),
    security: 'none',
    from: 'team@bailiff.test',
    fromName: 'The Team',
  }
  return { credential: credentialOf(settings), idempotencyKey: 'key-1', ...part }
}

function sendMail(args: JsonObject, part: { run?: TestRun; context?: Partial<HandlerContext> } = {}) {
  return callHandler(send, { run: part.run ?? testRun(), args, context: context(part.context) })
}

function add(run: TestRun, email: string) {
  const { organizationId, runId, rootRunId } = run
  return people.upsert({
    organizationId,
    email,
    name: 'Somebody',
    provenance: { runId, rootRunId, tool: 'crm.upsert_person' },
  })
}

test('the tool passes every check of the registry', async () => {
  const registry = await buildRegistry([send], { facts: [recipientIsNew(people)] })
  expect(registry.get('email.send')).toMatchObject({
    sideEffects: 'send',
    connection: 'email',
    repeatable: false,
    approvalPreview: true,
    policyFacts: ['recipient_is_new'],
    batchArgument: 'to',
    maxBatchSize: 20,
    downstreamKey: false,
    onUnknown: 'ask',
    timeoutS: SEND_TIMEOUT_S,
  })
})

test('every wait of a send ends before the invoker would end it', () => {
  const { totalMs, ...waits } = SEND_LIMITS
  expect(totalMs + SEND_LIMITS.closeMs).toBeLessThan(SEND_TIMEOUT_S * 1000)
  for (const wait of Object.values(waits)) expect(wait).toBeLessThan(totalMs)
})

describe('arguments', () => {
  test.each<JsonObject>([
    { ...MAIL, to: [] },
    { ...MAIL, to: ['jo@acme.test, x@evil.test'] },
    { ...MAIL, to: ['Jo <jo@acme.test>'] },
    { ...MAIL, to: ['jo@acme.test\r\nBcc: x@evil.test'] },
    { ...MAIL, to: 'jo@acme.test' },
    { ...MAIL, subject: '' },
    { ...MAIL, subject: 'Hello\r\nBcc: x@evil.test' },
    { ...MAIL, subject: 'Hello\nthere' },
    { ...MAIL, subject: 'Hello\u2028there' },
    { ...MAIL, subject: 'Hello \u202Egnp.exe' },
    { ...MAIL, subject: 'x'.repeat(201) },
    { ...MAIL, body: '' },
    { ...MAIL, body: 'a\u0000b' },
    { ...MAIL, body: 'x'.repeat(20_001) },
    { ...MAIL, bcc: ['x@evil.test'] },
    { ...MAIL, from: 'ceo@acme.test' },
  ])('%j is refused', (args) => {
    expect(() => admitted(send, args)).toThrow(/./)
  })

  test("more recipients than a batch holds are the batch rule's to refuse, not the schema's", () => {
    const to = Array.from({ length: 21 }, (_, index) => `p${index}@acme.test`)
    expect(admitted(send, { ...MAIL, to })).toMatchObject({ to })
  })
})

describe('sending', () => {
  test('one message goes out, signed with the run and with an id made of the idempotency key', async () => {
    const run = testRun()
    expect(await sendMail(MAIL, { run })).toEqual({
      ok: true,
      data: { messageId: messageIdFor('key-1'), accepted: ['jo@acme.test'], rejected: [] },
    })
    const [message, ...others] = await server.messages()
    expect(others).toEqual([])
    expect(message).toMatchObject({
      from: 'team@bailiff.test',
      to: MAIL.to,
      subject: 'Hello',
      messageId: messageIdFor('key-1'),
    })
    expect(message?.headers.get('x-bailiff-run')).toBe(run.runId)
  })

  test('a repeat of a call carries the id of the first, another call another one', async () => {
    await sendMail(MAIL)
    await sendMail(MAIL)
    await sendMail(MAIL, { context: { idempotencyKey: 'key-2' } })
    const ids = (await server.messages()).map(({ messageId }) => messageId)
    expect(ids).toEqual([messageIdFor('key-1'), messageIdFor('key-1'), messageIdFor('key-2')])
    expect(ids[0]).toMatch(/^<[0-9a-f]{64}@bailiff>$/)
  })

  test('a mailbox that is named twice gets the message once', async () => {
    await sendMail({ ...MAIL, to: ['jo@acme.test', 'JO@ACME.test', 'sam@acme.test'] })
    expect(await server.messages()).toMatchObject([{ deliveredTo: ['jo@acme.test', 'sam@acme.test'] }])
  })

  test('recipients that the server refused are named with its reply, and nothing of what it wrote', async () => {
    server.inject({ refuseRecipients: { 'sam@acme.test': 550, 'ed@acme.test': 450 } })
    const { data } = await sendMail({ ...MAIL, to: ['jo@acme.test', 'sam@acme.test', 'ed@acme.test'] })
    expect(data).toMatchObject({
      accepted: ['jo@acme.test'],
      rejected: [
        { address: 'sam@acme.test', status: 550, final: true },
        { address: 'ed@acme.test', status: 450, final: false },
      ],
    })
    expect(JSON.stringify(data)).not.toContain('Recipient refused')
  })

  test.each<[string, SmtpFaults, unknown]>([
    ['a refused address is bad input', { refuseRecipients: { 'jo@acme.test': 550 } }, ValidationError],
    ['a lost answer is unknown', { dropAfterData: 'after_filing' }, OutcomeUnknownError],
  ])('%s', async (_case, faults, kind) => {
    server.inject(faults)
    const error: unknown = await sendMail(MAIL).catch((raised: unknown) => raised)
    // The invoker goes by the exact class.
    expect(Object(error).constructor).toBe(kind)
  })

  test('a call without its connection or its key is a fault, and nobody is contacted', async () => {
    await expect(sendMail(MAIL, { context: { credential: null } })).rejects.toThrow('without its connection')
    await expect(sendMail(MAIL, { context: { idempotencyKey: null } })).rejects.toThrow('without an idempotency key')
    expect(server.connections()).toBe(0)
  })
})

describe('preview', () => {
  test('names the subject, the first recipient, how many more and how many of them are new', async () => {
    const run = testRun()
    await add(testRun({ organizationId: run.organizationId }), 'jo@acme.test')
    const to = ['jo@acme.test', 'sam@acme.test', 'ed@acme.test', 'ED@acme.test']
    expect(await callPreview(send, { run, args: { ...MAIL, to } })).toBe(
      'Email "Hello" to jo@acme.test and 2 more (2 new recipients)',
    )
  })

  test('a person the run itself has just added still reads as new', async () => {
    const run = testRun()
    await add(run, 'jo@acme.test')
    expect(await callPreview(send, { run, args: MAIL })).toBe('Email "Hello" to jo@acme.test (a new recipient)')
  })

  test('T57 a preview of a mail reads, writes nothing and contacts no mail server', async () => {
    await callPreview(send, { run: testRun(), args: MAIL })
    expect(statements).toHaveLength(1)
    expect(statements[0]).toMatch(/^select /)
    expect(send.spec.metered).toBe(false)
    expect(server.connections()).toBe(0)
    expect(await server.messages()).toEqual([])
  })
})

describe('the fact recipient_is_new', () => {
  const isNew = (run: TestRun, to: JsonObject[string]) =>
    recipientIsNew(people).resolve({
      invocation: invocationOf(run),
      rootRunId: run.rootRunId,
      tool: 'email.send',
      args: { ...MAIL, to },
      signal: new AbortController().signal,
    })

  test('is true as soon as one recipient is not in the CRM', async () => {
    const run = testRun()
    await add(testRun({ organizationId: run.organizationId }), 'jo@acme.test')
    expect(await isNew(run, ['JO@acme.test'])).toBe(false)
    expect(await isNew(run, ['jo@acme.test', 'sam@acme.test'])).toBe(true)
  })

  test("does not see what the call's own run tree wrote", async () => {
    const run = testRun()
    const child = testRun({ organizationId: run.organizationId, rootRunId: run.rootRunId })
    await add(child, 'jo@acme.test')
    expect(await isNew(run, ['jo@acme.test'])).toBe(true)
    expect(await isNew(testRun({ organizationId: run.organizationId }), ['jo@acme.test'])).toBe(false)
  })

  test('outside a run tree the run cannot vouch for itself either', async () => {
    const run = testRun()
    await add({ ...run, rootRunId: run.runId }, 'jo@acme.test')
    const request = {
      invocation: invocationOf(run),
      rootRunId: null,
      tool: 'email.send',
      args: MAIL,
      signal: new AbortController().signal,
    }
    expect(await recipientIsNew(people).resolve(request)).toBe(true)
  })

  test("another organization's people do not make a recipient known", async () => {
    await add(testRun({ organizationId: uuidv7() }), 'jo@acme.test')
    expect(await isNew(testRun(), ['jo@acme.test'])).toBe(true)
  })

  test('arguments without a list of addresses are a fault: a rule must not be decided on a guess', async () => {
    await expect(isNew(testRun(), 'jo@acme.test')).rejects.toThrow('as a list of addresses')
    await expect(isNew(testRun(), [1])).rejects.toThrow('as a list of addresses')
  })
})
