export { recipientIsNew, type RecipientBook } from './recipients.ts'
export { emailTools, type EmailOptions } from './tools.ts'
