import type { JsonValue, PastCall, Script, ScriptedCall, ScriptedConversation, ScriptedTurn } from 'bailiff/testing'

const LIST = 'Prospects'
const PEOPLE = 3

/** Stands in for a language model: the same seven turns for any company, each built from what the calls before answered. */
export const prospectScript: Script = (conversation) => {
  const input = inputOf(conversation)
  if (input.domain === '') return { text: 'The input names no domain, so there was nothing to do.' }
  const turn = TURNS[conversation.turns.length]
  return turn === undefined ? { text: summary(conversation) } : turn(conversation, input)
}

interface Input {
  readonly domain: string
  readonly company: string
  readonly title: string
}

type Turn = (conversation: ScriptedConversation, input: Input) => ScriptedTurn

const TURNS: readonly Turn[] = [
  (_conversation, { domain, company }) => ({
    text: `I will find out about ${domain}.`,
    calls: [
      { tool: 'research.search_company', args: { domain, ...(company === '' ? {} : { company }) } },
      { tool: 'research.enrich_company', args: { domain } },
    ],
  }),
  (_conversation, { domain, title }) => ({
    text: `Now I will look for ${title} there.`,
    calls: [{ tool: 'research.discover_people', args: { provider: 'exa', title, domain, limit: PEOPLE } }],
  }),
  (conversation, { domain }) => {
    const people = candidates(conversation)
    return {
      text: `${people.length} people may fit. I will look for their addresses.`,
      calls: people.map(({ name }) => ({ tool: 'research.find_contact', args: { fullName: name, domain } })),
    }
  },
  (conversation, input) => ({
    text: `${contacts(conversation).length} of them have an address. I will record them.`,
    calls: [companyOf(conversation, input), ...contacts(conversation).map((contact) => personOf(contact, input))],
  }),
  () => ({
    text: `They belong on the list ${LIST}.`,
    calls: [{ tool: 'crm.create_list', args: { name: LIST, kind: 'person' } }],
  }),
  (conversation, { domain }) => {
    const list = dataOf(conversation.callsOf('crm.create_list')[0])
    const people = conversation.callsOf('crm.upsert_person').flatMap((call) => textOf(dataOf(call), 'id') || [])
    return {
      text: 'I will add them and write to everybody whose address is verified.',
      calls: [
        ...(people.length === 0
          ? []
          : [{ tool: 'crm.add_to_list', args: { listId: textOf(list, 'id'), memberIds: people } }]),
        {
          tool: 'memory.remember',
          args: { kind: 'observation', subject: domain, text: `Prospects were looked for at ${domain}.` },
        },
        ...contacts(conversation).filter(isVerified).map(mailTo),
      ],
    }
  },
]

interface Contact {
  readonly name: string
  readonly email: string
  readonly verification: string
  readonly position: string
}

function candidates(conversation: ScriptedConversation): readonly { readonly name: string }[] {
  const found = dataOf(conversation.callsOf('research.discover_people')[0])
  return Array.isArray(found)
    ? found.flatMap((one) => (textOf(one, 'name') === '' ? [] : [{ name: textOf(one, 'name') }]))
    : []
}

/** Only addresses that a provider answered. */
function contacts(conversation: ScriptedConversation): readonly Contact[] {
  return conversation.callsOf('research.find_contact').flatMap((call) => {
    const found = dataOf(call)
    const email = textOf(found, 'email')
    const rest = { verification: textOf(found, 'verification'), position: textOf(found, 'position') }
    return email === '' ? [] : [{ name: textOf(found, 'name'), email, ...rest }]
  })
}

function isVerified({ verification }: Contact): boolean {
  return verification === 'verified'
}

function companyOf(conversation: ScriptedConversation, { domain, company }: Input): ScriptedCall {
  const known = fieldOf(dataOf(conversation.callsOf('research.enrich_company')[0]), 'company')
  const name = textOf(known, 'name') || company || domain
  const industry = textOf(known, 'industry')
  return { tool: 'crm.upsert_company', args: { domain, name, ...(industry === '' ? {} : { industry }) } }
}

function personOf({ name, email, position }: Contact, { company, domain }: Input): ScriptedCall {
  const args = { email, name, company: company || domain, ...(position === '' ? {} : { title: position }) }
  return { tool: 'crm.upsert_person', args }
}

function mailTo({ name, email }: Contact): ScriptedCall {
  const body = [
    `Hello ${name},`,
    'we help teams like yours hand routine work to agents without giving up control.',
    'Would fifteen minutes next week suit you?',
    'Best regards,\nThe Bailiff demo',
  ].join('\n\n')
  return { tool: 'email.send', args: { to: [email], subject: 'A question about your team', body } }
}

function summary(conversation: ScriptedConversation): string {
  const mails = conversation.callsOf('email.send')
  const lines = contacts(conversation).map((contact) => {
    const mail = mails.find((call) => JSON.stringify(call.args).includes(JSON.stringify(contact.email)))
    return `- ${contact.name} <${contact.email}> (${contact.verification}): ${mailOutcome(mail)}`
  })
  const without = candidates(conversation).length - contacts(conversation).length
  return [`${lines.length} people found with an address, ${without} without.`, ...lines].join('\n')
}

function mailOutcome(mail: PastCall | undefined): string {
  if (mail === undefined) return 'recorded, not written to.'
  if (fieldOf(mail.result, 'ok') === true) return 'written to.'
  return `not written to (${textOf(fieldOf(mail.result, 'error'), 'code') || 'no answer'}).`
}

function inputOf({ input }: ScriptedConversation): Input {
  let parsed: JsonValue = null
  try {
    parsed = JSON.parse(input) as JsonValue
  } catch {
    // What is no JSON names no domain.
  }
  const title = textOf(parsed, 'title') || 'Head of Operations'
  return { domain: textOf(parsed, 'domain'), company: textOf(parsed, 'company'), title }
}

function dataOf(call: PastCall | undefined): JsonValue {
  return call === undefined ? null : (fieldOf(call.result, 'data') ?? null)
}

function fieldOf(value: JsonValue | undefined, name: string): JsonValue | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  return Object.entries(value).find(([key]) => key === name)?.[1]
}

function textOf(value: JsonValue | undefined, name: string): string {
  const field = fieldOf(value, name)
  return typeof field === 'string' ? field : ''
}
