import { join } from 'node:path'
import { crmTools, scopedPeople } from 'bailiff/handlers/crm'
import { emailTools, recipientIsNew } from 'bailiff/handlers/email'
import { defineConfig } from 'bailiff/server'
import { scriptedModel } from 'bailiff/testing'
import { startSmtpServer } from '../../simulators/smtp-server.ts'
import { outreach } from './agent.ts'
import { readLeads } from './leads-file.ts'
import { outreachScript } from './script.ts'

const SCRIPTED = 'scripted/outreach'

/** The demo: an agent that writes to leads, a mail server that keeps every message as a file, and a person in between. */
export default defineConfig({
  async setup({ dataDir, scopedDb }) {
    const people = scopedPeople(scopedDb)
    const outboxDir = join(dataDir, 'outbox')
    const leads = await readLeads(new URL('./leads.csv', import.meta.url))
    const mail = await startSmtpServer({ outboxDir })
    return {
      // Whoever starts the demo also approves it; a real organization leaves this off.
      organization: { slug: 'demo', name: 'Demo', settings: { selfApproval: true } },
      tools: [...crmTools({ people }), ...emailTools({ recipients: people })],
      facts: [recipientIsNew(people)],
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
      definitions: [outreach],
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
      models: { [SCRIPTED]: scriptedModel({ name: SCRIPTED, next: outreachScript }) },
      defaultModel: SCRIPTED,
      firstRun: { definition: outreach.slug, input: leads },
      notices: [`mail lands as files in ${outboxDir}`],
      close: () => mail.close(),
    }
  },
})
