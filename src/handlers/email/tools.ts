import { createHash } from 'node:crypto'
import { z } from 'zod'
import { internalTool, type ToolDeclaration } from '../../tools/declarations.ts'
import type { HandlerOf } from '../../tools/handler.ts'
import type { HandlerContext, ToolInvocation } from '../../tools/invocation.ts'
import { type HandlerAnswer, ok } from '../../tools/models.ts'
import { rootRunOf } from '../run-tree.ts'
import { smtpAccount } from './account.ts'
import { ADDRESS_PATTERN, distinctAddresses, MAX_ADDRESS_LENGTH } from '../address.ts'
import { failureOf, type Letter, type SendLimits } from './delivery.ts'
import { previewLine } from './preview.ts'
import { newRecipients, type RecipientBook } from './recipients.ts'

/** Seconds until the invoker stops waiting for a send. */
export const SEND_TIMEOUT_S = 30

/**
 * The send ends itself before the invoker would, so that a server that was never reached reads as such and not as a
 * timeout that nobody knows the outcome of.
 */
export const SEND_LIMITS: SendLimits = { connectMs: 10_000, replyMs: 15_000, closeMs: 1_000, totalMs: 25_000 }

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
  readonly limits?: SendLimits
}

/**
 * Mail through the organization's own account. SMTP honours no idempotency key, so a lost answer is a person's question.
 * The answer repeats addresses that were asked for and reply codes, and no word of the server's: nothing in it is
 * untrusted, and sending does not taint a run.
 */
export function emailTools({ recipients, limits = SEND_LIMITS }: EmailOptions): ToolDeclaration[] {
  return [
    internalTool({
      name: 'email.send',
      description:
        'Send one plain-text email from the organization. Answers which recipients the mail server accepted and which it rejected.',
      input: Input,
      output: Output,
      sideEffects: 'send',
      connection: 'email',
      timeoutS: SEND_TIMEOUT_S,
      repeatable: false,
      approvalPreview: true,
      policyFacts: ['recipient_is_new'],
      batchArgument: 'to',
      maxBatchSize: MAX_RECIPIENTS,
      handler: sendHandler(recipients, limits),
    }),
  ]
}

function sendHandler(recipients: RecipientBook, limits: SendLimits): HandlerOf<In, Out> {
  return {
    async execute(invocation, args, context) {
      if (context.credential === null) throw new Error('email.send was called without its connection')
      const account = smtpAccount(context.credential)
      // Loaded with the first message: nodemailer is an optional dependency of the package.
      const { deliver } = await import('./smtp.ts')
      const letter = letterFrom(invocation, args, context)
      const delivery = await deliver(letter, { account, limits, signal: context.signal })
      if (delivery.kind === 'failed') throw failureOf(delivery)
      return answer(letter, delivery)
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

function letterFrom(invocation: ToolInvocation, { to, subject, body }: In, context: HandlerContext): Letter {
  if (context.idempotencyKey === null) throw new Error('email.send was called without an idempotency key')
  return {
    messageId: messageIdFor(context.idempotencyKey),
    to: distinctAddresses(to),
    subject,
    body: body.replace(/\r\n?|\n/g, '\r\n'),
    headers: { 'X-Bailiff-Run': invocation.runId },
  }
}

/** The same for every attempt at one call, so that two copies of a message can be recognised as one. */
export function messageIdFor(idempotencyKey: string): string {
  return `<${createHash('sha256').update(idempotencyKey).digest('hex')}@bailiff>`
}

type Accepted = {
  readonly accepted: readonly string[]
  readonly refused: readonly { address: string; status: number }[]
}

function answer(letter: Letter, { accepted, refused }: Accepted): HandlerAnswer<Out> {
  return ok({
    messageId: letter.messageId,
    accepted: [...accepted],
    rejected: refused.map(({ address, status }) => ({ address, status, final: status >= 500 })),
  })
}
