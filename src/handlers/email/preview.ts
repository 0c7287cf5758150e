/** Bytes of the whole line; a longer one would be dropped in favour of the bare arguments. */
const LINE_BYTES = 512

const ELLIPSIS = '…'

export interface MessageSummary {
  readonly subject: string
  /** Distinct, at least one. */
  readonly to: readonly string[]
  /** How many of them are new to the organization. */
  readonly newRecipients: number
}

/** `Email "Subject" to jo@acme.test and 2 more (2 new recipients)`, with the subject cut to what fits. */
export function previewLine({ subject, to, newRecipients }: MessageSummary): string {
  const others = to.length - 1
  const more = others > 0 ? ` and ${others} more` : ''
  const end = `" to ${to[0] ?? ''}${more}${newness(to.length, newRecipients)}`
  const start = 'Email "'
  const room = LINE_BYTES - Buffer.byteLength(start + end)
  return `${start}${fitting(subject.replace(/\s+/gu, ' '), room)}${end}`
}

function newness(recipients: number, fresh: number): string {
  if (fresh === 0) return ''
  if (recipients === 1) return ' (a new recipient)'
  return fresh === 1 ? ' (1 new recipient)' : ` (${fresh} new recipients)`
}

/** Cuts between characters as a reader sees them, so that no accent or emoji is torn. */
function fitting(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text
  let used = Buffer.byteLength(ELLIPSIS)
  let kept = ''
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    used += Buffer.byteLength(segment)
    if (used > bytes) break
    kept += segment
  }
  return kept + ELLIPSIS
}
