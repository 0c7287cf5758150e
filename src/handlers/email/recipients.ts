import type { FactResolver } from '../../tools/handler.ts'
import { distinctAddresses } from '../address.ts'

export interface RecipientQuery {
  readonly organizationId: string
  /** In any spelling. */
  readonly emails: readonly string[]
  /** Root of the run tree whose own rows do not count. */
  readonly exceptRootRun: string
}

/** Who the organization knows already. */
export interface RecipientBook {
  /** The known ones of `emails`, in lower case. */
  known(query: RecipientQuery): Promise<ReadonlySet<string>>
}

/**
 * Whether any recipient is new to the organization. Rows the run tree itself created do not count: otherwise adding a
 * person first, which needs nobody's consent, would make sending to that person look harmless.
 */
export function recipientIsNew(book: RecipientBook): FactResolver {
  return {
    name: 'recipient_is_new',
    type: 'bool',
    async resolve({ invocation, rootRunId, args }) {
      const to = args['to']
      if (!Array.isArray(to) || !to.every((address) => typeof address === 'string')) {
        throw new Error('recipient_is_new needs the argument "to" as a list of addresses')
      }
      const query = {
        organizationId: invocation.organizationId,
        emails: to,
        exceptRootRun: rootRunId ?? invocation.runId,
      }
      return (await newRecipients(book, query)).length > 0
    },
  }
}

/** Distinct recipients that the organization does not know. */
export async function newRecipients(book: RecipientBook, query: RecipientQuery): Promise<string[]> {
  const recipients = distinctAddresses(query.emails)
  const known = await book.known({ ...query, emails: recipients })
  return recipients.filter((address) => !known.has(address.toLowerCase()))
}
