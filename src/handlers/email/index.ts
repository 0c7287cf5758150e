export { emailProvider, type EmailProviderOptions } from './email-provider.ts'
export type { VendorAccess } from '../vendor/access.ts'
export { type NylasLimits, type NylasOptions, nylasTransport } from './nylas-transport.ts'
export { recipientIsNew, type RecipientBook } from './recipients.ts'
export { type ServerGuard, type SmtpOptions, smtpTransport } from './smtp-transport.ts'
export { emailTools, type EmailOptions } from './tools.ts'
export {
  type Delivered,
  type EmailTransport,
  type Letter,
  type RefusedRecipient,
  type SendContext,
} from './transport.ts'
