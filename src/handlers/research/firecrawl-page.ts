import { z } from 'zod'
import { fitsInto } from '../../tools/json-size.ts'
import { PLATFORM_OUTPUT_BYTES } from '../../tools/models.ts'
import { VendorError } from '../vendor/vendor-error.ts'
import { clippedLine, clippedText, webAddress } from './vendor-text.ts'

/** A page as a model reads it. Everything but `url` is what somebody else wrote. */
export interface ScrapedPage {
  /** As it was asked for. */
  readonly url: string
  /** Where the vendor ended up. */
  readonly finalUrl: string | null
  readonly title: string | null
  readonly description: string | null
  readonly language: string | null
  /** HTTP status the page's own server answered with; 404 is an answer like any other. */
  readonly statusCode: number | null
  readonly markdown: string
}

export interface ReadPage {
  readonly page: ScrapedPage
  /** Credits the vendor says it took; null when it does not say. */
  readonly credits: number | null
  /** Why less is answered than there was. */
  readonly partialReason: string | null
}

/** A page may name a thing more than once; the first counts. */
const text = z
  .union([z.string(), z.tuple([z.string()], z.unknown()).transform(([first]) => first)])
  .nullish()
  .catch(null)

/** Fields that say nothing readable count as absent: a page that was paid for is not lost over its title. */
const Document = z.object({
  markdown: z.string().nullish(),
  metadata: z.object({
    url: text,
    title: text,
    description: text,
    language: text,
    contentType: text,
    statusCode: z.int().min(100).max(999).nullish().catch(null),
    creditsUsed: z.number().min(0).nullish().catch(null),
  }),
})

/**
 * Reads the vendor's document. What it holds beside these fields, its `agent_hints` and other formats, is left behind.
 *
 * @throws VendorError `decode`
 */
export function readPage(document: unknown, url: string): ReadPage {
  const parsed = Document.safeParse(document)
  if (!parsed.success) throw new VendorError({ vendor: 'firecrawl', trouble: 'decode', cause: parsed.error })
  const { markdown, metadata } = parsed.data
  const frame = {
    url,
    finalUrl: webAddress(metadata.url),
    title: clippedLine(metadata.title, 300),
    description: clippedText(metadata.description, 500),
    language: clippedLine(metadata.language, 35),
    statusCode: metadata.statusCode ?? null,
  }
  const credits = metadata.creditsUsed ?? null
  if (/^application\/pdf\b/i.test(metadata.contentType?.trim() ?? '')) {
    return { page: { ...frame, markdown: '' }, credits, partialReason: 'the page is a PDF, which is not read' }
  }
  const whole = (markdown ?? '').toWellFormed()
  const start = longestThatFits(whole, (part) => fitsInto({ ...frame, markdown: part }, PLATFORM_OUTPUT_BYTES))
  const partialReason =
    start.length < whole.length ? `the first ${start.length} of ${whole.length} characters of the page` : null
  return { page: { ...frame, markdown: start }, credits, partialReason }
}

/**
 * The longest start of a text that still fits. The boundary behind every tool replaces a text that is too long instead of
 * cutting it, and the beginning of a page is worth more than its size.
 */
function longestThatFits(text: string, fits: (start: string) => boolean): string {
  if (text.length <= PLATFORM_OUTPUT_BYTES && fits(text)) return text
  let [low, high] = [0, Math.min(text.length, PLATFORM_OUTPUT_BYTES)]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (fits(text.slice(0, middle))) low = middle
    else high = middle - 1
  }
  // Never half a character: written in JSON, a half takes more bytes than the whole.
  return text.slice(0, low)
}
