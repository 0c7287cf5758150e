import { createHash } from 'node:crypto'
import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import type { HandlerOf } from '../../tools/handler.ts'
import type { ToolInvocation } from '../../tools/invocation.ts'
import { type HandlerAnswer, ok } from '../../tools/models.ts'
import { rootRunOf } from '../run-tree.ts'
import { ADDRESS_PATTERN, distinctAddresses, MAX_ADDRESS_LENGTH } from '../address.ts'
import { previewLine } from './preview.ts'
import { newRecipients, type RecipientBook } from './recipients.ts'
import { smtpTransport } from './smtp-transport.ts'
import { type Delivered, type EmailTransport, keyLifeOf, type Letter, transportFor } from './transport.ts'

/** Seconds until the invoker stops waiting for a send. */
export const SEND_TIMEOUT_S = 30

export const MAX_RECIPIENTS = 20

const Input = z.object({
  to: z
    .array(z.string().max(MAX_ADDRESS_LENGTH).regex(ADDRESS_PATTERN))
    .min(1)
    .describe(`Addresses of the recipients, at most ${MAX_RECIPIENTS}. All of them see each other.`),
  subject: z
    .string()
    .min(1)
    .max(200)
    // One line, and in the order it reads: no control characters, no direction overrides.
    .regex(/^[^\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]*$/u)
    .describe('One line of text.'),
  body: z
    .string()
    .min(1)
    .max(20_000)
    .regex(/^[\P{Cc}\t\n\r]*$/u)
    .describe('Plain text.'),
})

const InputWithAccount = Input.extend({
  connection_id: z
    .string()
    .regex(/^[0-9a-f-]{1,64}$/)
    .optional()
    .describe('Id of the mailbox to send from; needed when the organization has several.'),
})

const Output = z.object({
  messageId: z.string(),
  accepted: z.array(z.string()),
  /** Recipients the mail server did not take, with its reply code: 4xx may be tried again later, 5xx is final. */
  rejected: z.array(z.object({ address: z.string(), status: z.int(), final: z.boolean() })),
})

type In = z.output<typeof Input>
type Out = z.output<typeof Output>

export interface EmailOptions {
  readonly recipients: RecipientBook
  /** The connection chooses among them; SMTP alone unless given. */
  readonly transports?: readonly EmailTransport[]
  /** The tool takes the id of a connection, so that a model can choose between the mailboxes of an organization. */
  readonly chooseAccount?: boolean
}

/**
 * Mail through the organization's own account. A lost answer is repeated with the call's key when every transport passes
 * it on, for as long as the most forgetful receiver remembers it; otherwise, and after that, it is a person's question.
 * The answer repeats addresses that were asked for, reply codes and an id, and no word of the server's: nothing in it is
 * untrusted, and sending does not taint a run.
 */
export function emailTools(options: EmailOptions): ToolDeclaration[] {
  const { recipients, transports = [smtpTransport()], chooseAccount = false } = options
  const keyLifeS = keyLifeOf(transports)
  return [
    internalTool({
      name: 'email.send',
      description:
        'Send one plain-text email from the organization. Answers which recipients the mail server accepted and which it rejected.',
      input: chooseAccount ? InputWithAccount : Input,
      output: Output,
      sideEffects: 'send',
      connection: 'email',
      timeoutS: SEND_TIMEOUT_S,
      repeatable: false,
      approvalPreview: true,
      policyFacts: ['recipient_is_new'],
      batchArgument: 'to',
      maxBatchSize: MAX_RECIPIENTS,
      ...(keyLifeS === null ? {} : { downstreamKey: true, downstreamKeyS: keyLifeS }),
      handler: sendHandler(recipients, transports),
    }),
  ]
}

function sendHandler(recipients: RecipientBook, transports: readonly EmailTransport[]): HandlerOf<In, Out> {
  return {
    async execute(invocation, args, { credential, idempotencyKey, signal }) {
      if (credential === null) throw new Error('email.send was called without its connection')
      if (idempotencyKey === null) throw new Error('email.send was called without an idempotency key')
      const letter = letterFrom(invocation, args, idempotencyKey)
      return answer(await transportFor(transports, credential).send(letter, { credential, idempotencyKey, signal }))
    },
    async preview(invocation, { to, subject }) {
      const distinct = distinctAddresses(to)
      const fresh = await newRecipients(recipients, {
        organizationId: invocation.organizationId,
        emails: distinct,
        exceptRootRun: rootRunOf(invocation),
      })
      return previewLine({ subject, to: distinct, newRecipients: fresh.length })
    },
  }
}

function letterFrom(invocation: ToolInvocation, { to, subject, body }: In, idempotencyKey: string): Letter {
  const operationId = operationIdFor(idempotencyKey)
  return {
    messageId: messageIdFor(idempotencyKey),
    operationId,
    to: distinctAddresses(to),
    subject,
    body: body.replace(/\r\n?|\n/g, '\r\n'),
    headers: { 'X-Bailiff-Run': invocation.runId, 'X-Bailiff-Op': operationId },
  }
}

/** The same for every attempt at one call, so that two copies of a message can be recognised as one. */
export function messageIdFor(idempotencyKey: string): string {
  return `<${digest(idempotencyKey)}@bailiff>`
}

/** The beginning of the message id: short enough to type into the search of a mailbox. */
export function operationIdFor(idempotencyKey: string): string {
  return digest(idempotencyKey).slice(0, 16)
}

function digest(idempotencyKey: string): string {
  return createHash('sha256').update(idempotencyKey).digest('hex')
}

function answer({ messageId, accepted, refused }: Delivered): HandlerAnswer<Out> {
  return ok({
    messageId,
    accepted: [...accepted],
    rejected: refused.map(({ address, status }) => ({ address, status, final: status >= 500 })),
  })
}
