import { DEFAULT_CEILINGS } from 'bailiff'
import {
  branch,
  expr,
  map,
  optionalExpr,
  parallel,
  sequence,
  tool,
  waitForProviderJob,
  workflow,
} from 'bailiff/workflows'

/** Seconds a batch may take: the vendor says minutes. Past it, what it finds is paid for and not used. */
const ENRICHMENT_S = 1_800

/** Where a node finds whom it writes to; CEL. */
interface Addressee {
  readonly email: string
  readonly name: string
  readonly company: string
  readonly companyId: string
  /** Left out where it is null. */
  readonly title?: string
}

/** A row, a place on the list, and a mail that waits for somebody. `prefix` keeps the nodes of two uses apart. */
function approach(prefix: string, { email, name, company, companyId, title }: Addressee) {
  return sequence(`${prefix}_approach`, [
    tool(`${prefix}_person`, {
      tool: 'crm.upsert_person',
      args: {
        email: expr(email),
        name: expr(name),
        company: expr(company),
        companyId: expr(companyId),
        ...(title === undefined ? {} : { title: optionalExpr(title) }),
      },
    }),
    tool(`${prefix}_listed`, {
      tool: 'crm.add_to_list',
      args: { listId: expr('steps.list.output.id'), memberIds: [expr(`steps.${prefix}_person.output.id`)] },
    }),
    tool(`${prefix}_mail`, {
      tool: 'email.send',
      args: {
        to: [expr(email)],
        subject: expr(`"About the " + input.signal + " at " + ${company}`),
        body: expr(
          `"Hello " + ${name} + ",\\n\\nwe read about the " + input.signal + " at " + ${company} + ". Would fifteen minutes next week suit you?\\n\\nBest regards,\\nThe Bailiff demo"`,
        ),
      },
      // Whoever refuses one mail refuses that one alone.
      continueOnError: true,
    }),
  ])
}

/** Looks for the people of one company, and for the address of each. */
const reach = sequence('reach', [
  tool('company_row', {
    tool: 'crm.upsert_company',
    args: { domain: expr('company.domain'), name: expr('company.name') },
  }),
  tool('people', {
    tool: 'research.discover_people',
    args: { provider: 'exa', title: expr('input.title'), domain: expr('company.domain'), limit: 3 },
  }),
  map('contacts', {
    over: 'steps.people.output',
    as: 'person',
    fanoutConcurrency: 3,
    maxItems: 10,
    node: tool('address', {
      tool: 'research.find_contact',
      args: { fullName: expr('person.name'), domain: expr('company.domain') },
    }),
  }),
  tool('sorted', {
    tool: 'signals.sort_people',
    args: {
      company: { name: expr('company.name'), domain: expr('company.domain') },
      companyId: expr('steps.company_row.output.id'),
      names: expr('steps.people.output.map(person, person.name)'),
      emails: expr(
        'steps.contacts.output.map(found, found.verification == "verified" && !found.role ? found.email : null)',
      ),
      titles: expr('steps.contacts.output.map(found, found.position)'),
    },
  }),
])

/**
 * Whoever has no confirmed address yet, sent to a second vendor in one batch that takes minutes. The run parks until the
 * vendor calls back. Should it fail, or take longer than the wait, those who were confirmed before are written to all the same.
 */
const enrichment = [
  tool('batch', {
    tool: 'signals.batch_contacts',
    args: { open: expr('steps.prospects.output.map(prospect, prospect == null ? [] : prospect.open)') },
  }),
  branch('enrich', {
    when: 'size(steps.batch.output.contacts) > 0',
    yes: sequence('enriching', [
      tool('submit', { tool: 'fullenrich.submit', args: { contacts: expr('steps.batch.output.contacts') } }),
      waitForProviderJob('called_back', { jobId: expr('steps.submit.output.jobId'), timeoutS: ENRICHMENT_S }),
      tool('collect', { tool: 'fullenrich.collect', args: { jobId: expr('steps.submit.output.jobId') } }),
    ]),
    continueOnError: true,
  }),
  tool('merge', {
    tool: 'signals.merge_contacts',
    args: {
      people: expr('steps.batch.output.people'),
      found: expr('has(steps.collect) && steps.collect.ok ? steps.collect.output.contacts : []'),
    },
  }),
]

/** The mails, by where the address came from: all of them are asked about at the same time. */
const mails = parallel('mails', [
  map('confirmed', {
    over: 'steps.prospects.output',
    as: 'prospect',
    fanoutConcurrency: 4,
    maxItems: 50,
    node: branch('reached', {
      when: 'prospect != null',
      yes: map('written', {
        over: 'prospect.confirmed',
        as: 'person',
        fanoutConcurrency: 3,
        maxItems: 10,
        node: approach('known', {
          email: 'person.email',
          name: 'person.name',
          company: 'prospect.company.name',
          companyId: 'prospect.companyId',
          title: 'person.title',
        }),
      }),
    }),
  }),
  map('enriched', {
    over: 'steps.merge.output',
    as: 'person',
    fanoutConcurrency: 3,
    maxItems: 25,
    node: approach('found', {
      email: 'person.email',
      name: 'person.name',
      company: 'person.company',
      companyId: 'person.companyId',
    }),
  }),
])

/**
 * Signals Search: looks each company up, goes on with those a page tells the signal of, finds people and their addresses
 * there, has a second vendor look for the addresses that are missing, and writes to the ones whose address is confirmed.
 * Every mail waits for a person, the batch of the second vendor for its callback, and nothing else waits.
 */
export const signalsSearch = workflow({
  slug: 'signals-search',
  lane: 'batch',
  ceilings: { ...DEFAULT_CEILINGS, maxToolCalls: 500, maxCostCents: 500 },
  inputSchema: {
    type: 'object',
    required: ['companies', 'signal', 'title'],
    additionalProperties: false,
    properties: {
      companies: {
        type: 'array',
        minItems: 1,
        maxItems: 50,
        items: {
          type: 'object',
          required: ['name', 'domain'],
          properties: {
            name: { type: 'string', minLength: 1, maxLength: 100 },
            domain: { type: 'string', minLength: 3, maxLength: 253 },
          },
        },
      },
      signal: { type: 'string', minLength: 3, maxLength: 60 },
      title: { type: 'string', minLength: 2, maxLength: 100 },
    },
  },
  root: sequence('main', [
    tool('list', {
      tool: 'crm.create_list',
      args: { name: expr('"Signal: " + input.signal'), kind: 'person' },
    }),
    map('search', {
      over: 'input.companies',
      as: 'company',
      fanoutConcurrency: 5,
      maxItems: 50,
      node: tool('pages', {
        tool: 'research.search_company',
        args: { company: expr('company.name'), domain: expr('company.domain'), focus: expr('input.signal') },
        // A company the vendor cannot look up is left out.
        continueOnError: true,
      }),
    }),
    map('prospects', {
      over: 'input.companies',
      as: 'company',
      fanoutConcurrency: 4,
      maxItems: 50,
      node: branch('keep', {
        when: 'steps.search.output[index] != null && steps.search.output[index].exists(page, size(page.excerpts) > 0 && page.excerpts[0].contains(input.signal))',
        yes: reach,
      }),
    }),
    ...enrichment,
    mails,
  ]),
  output: {
    list: expr('steps.list.output.id'),
    companies: expr('size(input.companies)'),
    kept: expr('size(steps.prospects.output.filter(prospect, prospect != null))'),
    enriched: expr('size(steps.merge.output)'),
    withoutAddress: expr(
      'double(size(steps.batch.output.people) - size(steps.merge.output)) + steps.batch.output.left',
    ),
  },
})
