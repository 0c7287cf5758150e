import { announce, block, confirmed, facts, h, longTexts, message, shown, status, when } from './elements.js'
import { api, Problem } from './session.js'

const POLL_MS = 3_000
const RUNS_SHOWN = 20

/** Approvals that wait, and the latest runs. */
export function inbox(main, session) {
  const heading = h('h1', {}, 'Approvals')
  const cards = h('div', {})
  const runs = h('div', { class: 'table' })
  const views = new Map()
  main.replaceChildren(heading, cards, h('h2', { id: 'runs' }, 'Recent runs'), runs)
  if (session.kind === 'run')
    cards.append(
      message('A key of kind run may not read approvals. Sign in with a key of kind approve or admin to answer them.'),
    )
  const timer = setInterval(() => void look(), POLL_MS)
  const look = async () => {
    // Signed out, or on another page: there is nothing left to keep up to date.
    if (!cards.isConnected) clearInterval(timer)
    if (document.hidden || !cards.isConnected) return
    try {
      if (session.kind !== 'run') await showApprovals({ cards, views, heading, session })
      await showRuns(runs)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      announce(error.text)
    }
  }
  document.addEventListener('visibilitychange', () => void look())
  addShortcuts(cards)
  return look()
}

async function showApprovals({ cards, views, heading, session }) {
  const { items, nextCursor } = await api('/approvals?state=pending&limit=100')
  const pending = new Set(items.map(({ id }) => id))
  for (const approval of items) {
    if (views.has(approval.id)) continue
    const view = approvalCard(approval, session)
    views.set(approval.id, view)
    cards.append(view.element)
  }
  // Answered somewhere else meanwhile: the card says by whom, rather than vanish under the reader's eyes.
  for (const [id, view] of views) if (!pending.has(id) && !view.settled) await view.refresh()
  const count = nextCursor === null ? String(items.length) : `more than ${items.length}`
  heading.textContent = items.length === 0 ? 'Nothing waits for you' : `${count} waiting for you`
  document.title = items.length === 0 ? 'Bailiff' : `(${items.length}) Bailiff`
}

function approvalCard(first, session) {
  const answerPlace = h('div', {})
  const card = h(
    'section',
    { class: 'sheet', tabindex: '-1', 'aria-labelledby': `t-${first.id}`, 'data-approval': first.id },
    h('h3', { id: `t-${first.id}` }, shown(first.preview ?? first.tool)),
    ...outcomeQuestion(first),
    approvalFacts(first),
    ...(first.hidden
      ? [
          h(
            'p',
            { class: 'quiet' },
            'What it is about is shown to its approvers, to owners and to whoever started the run.',
          ),
        ]
      : [h('div', { class: 'quiet' }, 'Exact arguments'), block(first.arguments), ...longTexts(first.arguments)]),
    answerPlace,
  )
  const view = { element: card, settled: false, refresh }

  async function refresh() {
    const approval = await api(`/approvals/${first.id}`)
    if (approval.state === 'pending') return
    settle(decisionText(approval), approval.state === 'approved' ? 'good' : '')
  }

  function settle(text, tone) {
    view.settled = true
    answerPlace.replaceChildren(message(text, tone))
    announce(text)
  }

  async function answer(verb, body) {
    for (const button of answerPlace.querySelectorAll('button')) button.disabled = true
    try {
      const decided = await api(`/approvals/${first.id}/${verb}`, {
        method: 'POST',
        body: { argumentsHash: first.argumentsHash, ...body },
      })
      settle(decisionText(decided), decided.state === 'approved' ? 'good' : '')
      card.focus()
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.status === 409) settle(error.text, 'bad')
      else answerPlace.replaceChildren(...answerControls(first, answer), message(error.text, 'bad'))
    }
  }

  const mayAnswer = session.kind === 'admin' || session.kind === 'approve'
  answerPlace.append(
    ...(mayAnswer && !first.hidden
      ? answerControls(first, answer)
      : [message('You may look at approvals, and not answer them.')]),
  )
  return view
}

function outcomeQuestion({ kind }) {
  return kind === 'outcome'
    ? [
        message(
          'This call was tried and no answer came back. Nobody knows whether it took effect. Find out at the receiver before you answer.',
        ),
      ]
    : []
}

function approvalFacts(approval) {
  const known = Object.entries(approval.facts ?? {}).map(([name, value]) => `${name} = ${JSON.stringify(value)}`)
  return facts([
    ['Tool', `${approval.tool} (version ${approval.toolVersion})`],
    [
      'Why it stopped',
      approval.rule === null ? 'the default for this kind of tool: a person decides' : `rule “${approval.rule}”`,
    ],
    ['Facts', known.length === 0 ? null : known.join(', ')],
    ['Agent', `${approval.principal.agent}, started by ${approval.principal.startedBy.name}`],
    ['Run', h('a', { href: `/runs/${approval.runId}` }, 'what it did so far')],
    ['Asked', when(approval.requestedAt)],
    ['Expires', when(approval.expiresAt)],
  ])
}

function answerControls(approval, answer) {
  const note = h('textarea', { id: `n-${approval.id}`, rows: '2', maxlength: '2000' })
  const stop = h('input', { type: 'checkbox', id: `s-${approval.id}` })
  const said = () => (note.value.trim() === '' ? {} : { note: note.value.trim() })
  const reject = h(
    'button',
    {
      type: 'button',
      class: 'danger',
      'data-action': 'reject',
      on: { click: () => answer('reject', { ...said(), ...(stop.checked ? { stopRun: true } : {}) }) },
    },
    approval.kind === 'outcome' ? 'Leave it' : 'Reject',
  )
  const approvals =
    approval.kind === 'outcome'
      ? [
          confirmed({
            label: 'It arrived',
            question: 'Record it as done?',
            yes: 'Yes, it arrived',
            act: () => answer('approve', { ...said(), outcome: 'arrived' }),
          }),
          confirmed({
            label: 'Send again',
            question: 'If it arrived before, it will arrive twice.',
            yes: 'Send it again',
            act: () => answer('approve', { ...said(), outcome: 'send_again' }),
          }),
        ]
      : [
          confirmed({
            label: 'Approve…',
            question: 'Allow exactly this call?',
            yes: 'Yes, allow it',
            style: 'primary',
            act: () => answer('approve', said()),
          }),
        ]
  approvals[0].ask.dataset.action = 'approve'
  return [
    h('label', { for: note.id }, 'Note (kept with your answer; after a rejection the agent reads it)'),
    note,
    h('label', { class: 'inline', for: stop.id }, stop, 'When rejecting, stop the run too'),
    h('div', { class: 'actions' }, ...approvals.map(({ element }) => element), reject),
  ]
}

function decisionText({ state, decidedBy, decidedAt, note }) {
  const who = decidedBy === null ? '' : ` by ${decidedBy.name}`
  const at = decidedAt === null ? '' : ` at ${new Date(decidedAt).toLocaleString()}`
  return `${state}${who}${at}${note === null ? '' : `: ${note}`}`
}

async function showRuns(place) {
  const { items } = await api(`/runs?limit=${RUNS_SHOWN}`)
  if (items.length === 0) {
    place.replaceChildren(h('p', { class: 'quiet' }, 'No runs yet.'))
    return
  }
  const rows = items.map((run) => {
    const started = when(run.createdAt)
    return h(
      'tr',
      {},
      h(
        'td',
        {},
        h(
          'a',
          {
            href: `/runs/${run.id}`,
            'aria-label': `run of ${run.definition}, ${run.status}, started ${started.textContent}`,
          },
          shown(run.definition),
        ),
      ),
      h(
        'td',
        {},
        status(run.status),
        run.reason === null || run.status === 'completed' ? '' : shown(` (${run.reason})`),
      ),
      h('td', {}, started),
      h('td', {}, run.model),
    )
  })
  const columns = ['Agent', 'Status', 'Started', 'Model'].map((name) => h('th', { scope: 'col' }, name))
  // A table that is rebuilt under the keyboard would throw the focus away.
  if (place.contains(document.activeElement)) return
  place.replaceChildren(
    h('table', { 'aria-labelledby': 'runs' }, h('thead', {}, h('tr', {}, ...columns)), h('tbody', {}, ...rows)),
  )
}

/** j and k move between approvals, a and r go to their buttons. None of them decides. */
function addShortcuts(cards) {
  document.addEventListener('keydown', (event) => {
    const inField = event.target instanceof HTMLElement && event.target.closest('input, textarea') !== null
    if (inField || event.ctrlKey || event.metaKey || event.altKey) return
    const all = [...cards.querySelectorAll('[data-approval]')]
    const at = all.indexOf(document.activeElement?.closest('[data-approval]') ?? null)
    if (event.key === 'j') all[Math.min(at + 1, all.length - 1)]?.focus()
    if (event.key === 'k') all[Math.max(at - 1, 0)]?.focus()
    const action = { a: 'approve', r: 'reject' }[event.key]
    if (action !== undefined) all[at]?.querySelector(`[data-action="${action}"]`)?.focus()
  })
}
