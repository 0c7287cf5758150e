import { join } from 'node:path'
import { crmTools, scopedCompanies, scopedLists, scopedPeople } from 'bailiff/handlers/crm'
import { emailProvider, emailTools, nylasTransport, recipientIsNew, smtpTransport } from 'bailiff/handlers/email'
import { memoryTools, scopedMemories } from 'bailiff/handlers/memory'
import { defineConfig, type AppParts } from 'bailiff/server'
import { scriptedModel } from 'bailiff/testing'
import { startSmtpServer } from '../../simulators/smtp-server.ts'
import { outreach } from './agent.ts'
import { readLeads } from './leads-file.ts'
import { demoScript } from './demo-script.ts'
import { prospect } from './prospect.ts'
import { researchTools } from './vendors.ts'

const SCRIPTED = 'scripted/outreach'

/** The region of the Nylas application; the other one is api.eu.nylas.com. */
const NYLAS = 'https://api.us.nylas.com'

/** Whom an agent may write to without asking. */
const RULES = [
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
] satisfies AppParts['rules']

/** What each account takes at the same time, for `bailiff vendors arithmetic`; yours stands in your contract. */
const ACCOUNTS = [
  { vendor: 'exa', limit: 50, source: 'ten searches a second, of five seconds each' },
  { vendor: 'parallel', limit: 50, source: '600 searches a minute, of five seconds each' },
  { vendor: 'firecrawl', limit: 50, source: 'concurrent browsers of the Standard plan' },
  { vendor: 'hunter', limit: 75, source: 'fifteen requests a second, of five seconds each' },
] satisfies AppParts['vendorAccounts']

/** The demo: an agent that writes to leads, a mail server that keeps every message as a file, and a person in between. */
export default defineConfig({
  demo: true,
  async setup({ dataDir, scopedDb, vendorKeys, outgoing }) {
    const people = scopedPeople(scopedDb)
    const outboxDir = join(dataDir, 'outbox')
    const leads = await readLeads(new URL('./leads.csv', import.meta.url))
    const mail = await startSmtpServer({ outboxDir })
    // The demo's mail server is on this machine; every other address a connection names has to be a public one.
    const guard = outgoing([`${mail.host}:${mail.port}`])
    const research = await researchTools({ keys: vendorKeys, guard })
    const nylas =
      vendorKeys.nylas === null ? [] : [nylasTransport({ access: { apiKey: vendorKeys.nylas, baseUrl: NYLAS } })]
    return {
      // Whoever starts the demo also approves it; a real organization leaves this off.
      organization: { slug: 'demo', name: 'Demo', settings: { selfApproval: true } },
      tools: [
        ...crmTools({ people, companies: scopedCompanies(scopedDb), lists: scopedLists(scopedDb) }),
        ...memoryTools({ memories: scopedMemories(scopedDb) }),
        ...research.tools,
        ...emailTools({ recipients: people, transports: [smtpTransport({ guard }), ...nylas] }),
      ],
      facts: [recipientIsNew(people)],
      rules: RULES,
      definitions: [outreach, prospect],
      providers: [emailProvider({ nylas: nylas.length > 0 })],
      connections: [
        {
          provider: 'email',
          label: 'demo outbox',
          settings: {
            host: mail.host,
            port: String(mail.port),
            security: 'none',
            from: 'outreach@bailiff.test',
            fromName: 'Bailiff demo',
          },
        },
      ],
      models: { [SCRIPTED]: scriptedModel({ name: SCRIPTED, next: demoScript }) },
      defaultModel: SCRIPTED,
      firstRun: { definition: outreach.slug, input: leads },
      notices: [`mail lands as files in ${outboxDir}`, ...research.notices],
      vendorAccounts: ACCOUNTS,
      close: async () => {
        await research.close()
        await mail.close()
      },
    }
  },
})
