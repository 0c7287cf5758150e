import { crmTools, scopedCompanies, scopedLists, scopedPeople } from 'bailiff/handlers/crm'
import { emailProvider, emailTools, recipientIsNew, smtpTransport } from 'bailiff/handlers/email'
import { memoryTools, scopedMemories } from 'bailiff/handlers/memory'
import { defineConfig } from 'bailiff/server'

/** The config of the container image: a desk with a CRM, a memory and mail. Put your own in its place. */
export default defineConfig({
  async setup({ scopedDb, outgoing }) {
    const people = scopedPeople(scopedDb)
    return {
      organization: { slug: 'acme', name: 'Acme' },
      tools: [
        ...crmTools({ people, companies: scopedCompanies(scopedDb), lists: scopedLists(scopedDb) }),
        ...memoryTools({ memories: scopedMemories(scopedDb) }),
        ...emailTools({ recipients: people, transports: [smtpTransport({ guard: outgoing() })] }),
      ],
      facts: [recipientIsNew(people)],
      providers: [emailProvider({ nylas: false })],
      rules: [
        {
          name: 'new recipients need a person',
          tools: ['email.send'],
          when: 'recipient_is_new',
          effect: 'require_approval',
          mode: 'enforce',
        },
        {
          name: 'known recipients',
          tools: ['email.send'],
          when: '!recipient_is_new',
          effect: 'allow',
          mode: 'enforce',
        },
      ],
      definitions: [
        {
          slug: 'assistant',
          instructions: 'Do what the input asks with the tools you have. Say what you did and what you could not do.',
          tools: ['crm.search_people', 'crm.get_person', 'email.send'],
          model: null,
          ceilings: { maxTurns: 20, maxToolCalls: 50, maxDurationS: 24 * 3600, maxCostCents: null },
        },
      ],
    }
  },
})
