import type { UsageRecord } from '../../tools/invocation.ts'
import type { PeopleQuery } from './persona.ts'

/**
 * A person as a provider found it, in words of no provider. Text is as the provider gave it: the tool bounds it, and
 * leaves out whoever has no name.
 */
export interface FoundPerson {
  readonly name: string | null
  readonly title: string | null
  readonly company: string | null
  readonly location: string | null
  /** Of a personal profile. */
  readonly linkedinUrl: string | null
  /** Where this was read. */
  readonly sourceUrl: string | null
  /** Text of the source about the person. */
  readonly snippet: string | null
}

export interface FoundPeople {
  /** Best first. */
  readonly candidates: readonly FoundPerson[]
  /** What this one answer cost, under the name of the vendor that charges for it. */
  readonly usage: Omit<UsageRecord, 'provider'>
}

/** One source of people. One search is one paid request: it neither repeats itself nor asks anybody else. */
export interface PeopleProvider {
  /** What a model calls it: lower case letters, digits and underscores. */
  readonly name: string
  /** What usage rows call whoever charges for it. */
  readonly vendor: string
  /** @throws VendorError for everything that is no answer; nobody found is an answer */
  search(
    query: PeopleQuery,
    attempt: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<FoundPeople>
}
