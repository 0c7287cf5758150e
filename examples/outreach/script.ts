import type { JsonValue, PastCall, Script, ScriptedCall, ScriptedTurn } from 'bailiff/testing'
import type { Lead } from './leads.ts'

/**
 * What stands in for a language model when there is no key for one: the same three turns and a summary, for any list of
 * leads. It reads the answers to its calls like a model would, and its summary claims nothing they do not say.
 */
export const outreachScript: Script = (conversation) => {
  const leads = leadsOf(conversation.input)
  if (leads.length === 0) return { text: 'The input names no leads, so there was nothing to do.' }
  switch (conversation.turns.length) {
    case 0:
      return look(leads)
    case 1:
      return record(leads, conversation.callsOf('crm.search_people'))
    case 2:
      return write(leads, conversation.callsOf('crm.upsert_person'))
    default:
      return { text: summary(leads, conversation.callsOf('crm.upsert_person'), conversation.callsOf('email.send')) }
  }
}

function look(leads: readonly Lead[]): ScriptedTurn {
  const [first] = leads
  const query = first === undefined || first.company === '' ? (first?.name ?? '') : first.company
  return {
    text: `I have ${counted(leads.length, 'lead')}. I will see whether we know them, starting with ${query}.`,
    calls: [{ tool: 'crm.search_people', args: { query: cut(query, 100), limit: 10 } }],
  }
}

function record(leads: readonly Lead[], searches: readonly PastCall[]): ScriptedTurn {
  const answer = searches.map(read).at(-1)
  const found = answer?.kind === 'done' && answer.count !== null ? counted(answer.count, 'person', 'people') : null
  return {
    text: `${found === null ? 'The search gave no usable answer.' : `The search found ${found}.`} I will record every lead.`,
    calls: leads.map((lead) => ({ tool: 'crm.upsert_person', args: personOf(lead) })),
  }
}

function personOf({ name, email, company, title }: Lead): JsonValue {
  return {
    email,
    name: cut(name, 200),
    ...(company === '' ? {} : { company: cut(company, 200) }),
    ...(title === '' ? {} : { title: cut(title, 200) }),
  }
}

function write(leads: readonly Lead[], upserts: readonly PastCall[]): ScriptedTurn {
  const recorded = upserts.filter((call) => read(call).kind === 'done').length
  return {
    text: `${recorded} of ${counted(leads.length, 'lead')} recorded. I will write to each of them now.`,
    calls: leads.map(mailTo),
  }
}

function mailTo(lead: Lead): ScriptedCall {
  const body = [
    `Hello ${lead.name},`,
    `we help teams like ${lead.company === '' ? 'yours' : `the one at ${lead.company}`} hand routine work to agents without giving up control.`,
    'Would fifteen minutes next week suit you?',
    'Best regards,\nThe Bailiff demo',
  ].join('\n\n')
  const subject = lead.company === '' ? `A question, ${lead.name}` : `A question for ${lead.company}`
  return { tool: 'email.send', args: { to: [lead.email], subject: cut(subject, 200), body: cut(body, 20_000) } }
}

function summary(leads: readonly Lead[], upserts: readonly PastCall[], mails: readonly PastCall[]): string {
  const outcomes = leads.map((lead, index) => mailOutcome(lead, mails[index]))
  const lines = leads.map(
    (lead, index) => `- ${lead.name} <${lead.email}>: ${outcomes[index]?.text ?? ''}${recordLine(upserts[index])}`,
  )
  const sent = outcomes.filter((outcome) => outcome.sent).length
  return [`${sent} of ${counted(leads.length, 'mail')} sent.`, ...lines].join('\n')
}

interface MailOutcome {
  /** Known to be sent. */
  readonly sent: boolean
  readonly text: string
}

function mailOutcome(lead: Lead, mail: PastCall | undefined): MailOutcome {
  if (mail === undefined) return { sent: false, text: 'no mail was tried.' }
  const answer = read(mail)
  if (answer.kind === 'failed') return { sent: false, text: failureText(answer) }
  if (answer.kind === 'unclear') return { sent: false, text: 'not known to be sent (the answer could not be read).' }
  // An answer without data is a person's word that the mail arrived; otherwise the server has to name the recipient.
  if (answer.data === null) return { sent: true, text: 'sent, as a person confirmed.' }
  const accepted = isRecord(answer.data) ? answer.data['accepted'] : null
  if (!Array.isArray(accepted)) return { sent: false, text: 'not known to be sent (the answer names no recipients).' }
  if (accepted.includes(lead.email)) return { sent: true, text: 'sent.' }
  return { sent: false, text: 'not sent (the mail server did not accept the address).' }
}

/** Codes of an answer that was lost or spoiled on its way: the mail may have left all the same. */
const UNCERTAIN: readonly string[] = ['timeout', 'invalid_output', 'internal_error']

function failureText({ code, message }: { readonly code: string; readonly message: string }): string {
  const reason = message.replace(/\.$/, '')
  if (UNCERTAIN.includes(code)) return `not known to be sent (${reason}).`
  if (code === 'rejected') return `not sent, a person rejected it (${reason}).`
  if (code === 'denied') return `not sent, a rule refused it (${reason}).`
  return `not sent (${code}: ${reason}).`
}

function recordLine(upsert: PastCall | undefined): string {
  const answer = upsert === undefined ? null : read(upsert)
  if (answer?.kind === 'done') return ''
  return answer?.kind === 'failed'
    ? ` Not recorded in the CRM (${answer.code}).`
    : ' Whether it was recorded is not known.'
}

type Answer =
  | { readonly kind: 'done'; readonly data: JsonValue; readonly count: number | null }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }
  | { readonly kind: 'unclear' }

/**
 * What happened stands in the first line, as JSON; text from outside follows in an envelope, which a script has no use
 * for. An answer without `ok` says nothing about what happened.
 */
function read({ answer }: PastCall): Answer {
  const head = parsedJson((answer ?? '').split('\n')[0] ?? '')
  if (!isRecord(head) || typeof head['ok'] !== 'boolean') return { kind: 'unclear' }
  const count = head['count']
  if (head['ok']) return { kind: 'done', data: head['data'] ?? null, count: typeof count === 'number' ? count : null }
  const error = head['error']
  const text = (field: string) => {
    const value = isRecord(error) ? error[field] : undefined
    return typeof value === 'string' ? value : ''
  }
  return { kind: 'failed', code: text('code') || 'failed', message: text('message') || 'no reason given' }
}

function leadsOf(input: string): Lead[] {
  const parsed = parsedJson(input)
  const leads = isRecord(parsed) ? parsed['leads'] : null
  if (!Array.isArray(leads)) return []
  const found = leads.filter(isRecord).flatMap((lead) => {
    const text = (field: string) => {
      const value = Object.hasOwn(lead, field) ? lead[field] : ''
      return typeof value === 'string' ? value.replace(/\s+/g, ' ').trim() : ''
    }
    const email = text('email')
    return email === '' ? [] : [{ email, name: text('name') || email, company: text('company'), title: text('title') }]
  })
  // Two mails to one address would be one effect or two, and the summary could not say which.
  return [...new Map(found.toReversed().map((lead) => [lead.email.toLowerCase(), lead])).values()].toReversed()
}

function parsedJson(text: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return null
  }
}

function isRecord(value: JsonValue | undefined): value is { readonly [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function cut(text: string, characters: number): string {
  return Array.from(text).slice(0, characters).join('')
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
