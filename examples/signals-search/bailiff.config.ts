import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { crmTools, scopedCompanies, scopedLists, scopedPeople } from 'bailiff/handlers/crm'
import { emailTools, recipientIsNew, smtpTransport } from 'bailiff/handlers/email'
import { defineConfig } from 'bailiff/server'
import { scriptedModel } from 'bailiff/testing'
import { startSmtpServer } from '../../simulators/smtp-server.ts'
import { researchTools } from '../outreach/vendors.ts'
import { contactTools } from './contacts.ts'
import { enrichment } from './enrichment.ts'
import { newsPages } from './pages.ts'
import { signalsSearch } from './workflow.ts'

/** No model speaks in this workflow; the platform wants to know one all the same. */
const NO_MODEL = 'scripted/none'

/** Signals Search on stand-ins for the vendors and the mail server; a vendor whose key is set is asked for real. */
export default defineConfig({
  demo: true,
  async setup({ dataDir, scopedDb, vendorKeys, outgoing, providerJobs, webhookUrl }) {
    const people = scopedPeople(scopedDb)
    const outboxDir = join(dataDir, 'outbox')
    const mail = await startSmtpServer({ outboxDir })
    const guard = outgoing([`${mail.host}:${mail.port}`])
    const research = await researchTools({ keys: vendorKeys, guard, find: newsPages })
    const enrich = await enrichment({ vendorKeys, providerJobs, webhookUrl })
    const companies = new URL('./companies.json', import.meta.url)
    return {
      organization: { slug: 'demo', name: 'Demo', settings: { selfApproval: true } },
      tools: [
        ...crmTools({ people, companies: scopedCompanies(scopedDb), lists: scopedLists(scopedDb) }),
        ...research.tools,
        ...enrich.tools,
        ...contactTools,
        ...emailTools({ recipients: people, transports: [smtpTransport({ guard })] }),
      ],
      jobProviders: [enrich.provider],
      facts: [recipientIsNew(people)],
      rules: [
        { name: 'every mail waits', tools: ['email.send'], when: null, effect: 'require_approval', mode: 'enforce' },
      ],
      definitions: [signalsSearch],
      connections: [
        {
          provider: 'email',
          label: 'demo outbox',
          settings: {
            host: mail.host,
            port: String(mail.port),
            security: 'none',
            from: 'signals@bailiff.test',
            fromName: 'Bailiff demo',
          },
        },
      ],
      models: { [NO_MODEL]: scriptedModel({ name: NO_MODEL, next: () => ({ text: 'there is nothing to say' }) }) },
      defaultModel: NO_MODEL,
      firstRun: { definition: signalsSearch.slug, input: JSON.parse(await readFile(companies, 'utf8')) },
      notices: [`mail lands as files in ${outboxDir}`, ...research.notices, enrich.notice],
      vendorAccounts: [
        { vendor: 'exa', limit: 50, source: 'ten searches a second, of five seconds each' },
        { vendor: 'parallel', limit: 50, source: '600 searches a minute, of five seconds each' },
        { vendor: 'firecrawl', limit: 50, source: 'concurrent browsers of the Standard plan' },
        { vendor: 'fullenrich', limit: 5, source: '60 requests a minute, of five seconds each' },
        { vendor: 'hunter', limit: 75, source: 'fifteen requests a second, of five seconds each' },
      ],
      close: async () => {
        await enrich.close()
        await research.close()
        await mail.close()
      },
    }
  },
})
