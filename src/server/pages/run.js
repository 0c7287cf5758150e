import { announce, block, confirmed, duration, facts, h, message, shown, status, when } from './elements.js'
import { api, Problem } from './session.js'

const OPEN = ['queued', 'running', 'parked']

/** One run as it happens. */
export async function runPage(main, session, id) {
  const { run, spans } = await api(`/runs/${id}/tree`)
  const view = new RunView(main, session, run)
  view.show(run, spans)
  if (OPEN.includes(run.status)) view.follow()
}

class RunView {
  constructor(main, session, run) {
    this.session = session
    this.id = run.id
    this.spans = new Map()
    this.heading = h('h1', {}, 'Run of ', shown(run.definition))
    this.summary = h('section', { class: 'sheet', 'aria-label': 'Summary' })
    this.speaking = h('p', { class: 'message speaking', hidden: true })
    this.tree = h('ul', { class: 'tree' })
    this.values = h('div', {})
    main.replaceChildren(
      this.heading,
      this.summary,
      h('h2', {}, 'What happened'),
      this.tree,
      this.speaking,
      this.values,
    )
  }

  show(run, spans) {
    for (const span of spans) this.setSpan(span)
    this.setRun(run)
  }

  follow() {
    const events = new EventSource(`/api/v1/runs/${this.id}/events`)
    const on = (name, act) => events.addEventListener(name, (event) => act(JSON.parse(event.data)))
    on('tree', ({ run, spans }) => this.show(run, spans))
    on('span', (span) => this.setSpan(span))
    on('run', (run) => this.setRun(run))
    on('text', ({ delta }) => this.say(delta))
    on('end', ({ run }) => {
      events.close()
      this.setRun(run)
      announce(`the run is ${run.status}`)
    })
  }

  /** Words of the model as they come; the finished turn replaces them. */
  say(delta) {
    this.spoken = (this.spoken ?? '') + delta
    this.speaking.hidden = false
    this.speaking.replaceChildren(shown(this.spoken, { lines: true }))
  }

  setRun(run) {
    const open = OPEN.includes(run.status)
    document.title = `${run.definition}: ${run.status}`
    this.summary.replaceChildren(
      facts([
        [
          'Status',
          h(
            'span',
            {},
            status(run.status),
            run.reason === null || run.status === 'completed' ? '' : shown(` (${run.reason})`),
          ),
        ],
        ['Message', run.message],
        [
          'Waits for',
          run.pendingApprovals === 0
            ? null
            : h(
                'a',
                { href: '/' },
                `${run.pendingApprovals} approval${run.pendingApprovals === 1 ? '' : 's'} in the inbox`,
              ),
        ],
        ['Model', run.model.startsWith('scripted/') ? `${run.model} (a script, no language model)` : run.model],
        ['Started', h('span', {}, when(run.createdAt), shown(` by ${run.startedBy.name}`))],
        ['Took', run.startedAt === null || run.endedAt === null ? null : duration(run.startedAt, run.endedAt)],
        ['Used', `${run.turns} turns, ${run.toolCalls} tool calls, ${cost(run.costCents)}`],
        ['Tools', run.tools.join(', ')],
        ['Ends at the latest', open ? when(run.deadline) : null],
      ]),
      ...(open && this.mayCancel(run) ? [this.cancelButton()] : []),
    )
    if (!open) this.speaking.hidden = true
    this.values.replaceChildren(
      h('h2', {}, 'Input'),
      block(run.input),
      ...(run.output === null ? [] : [h('h2', {}, 'Output'), block(run.output)]),
    )
  }

  mayCancel(run) {
    return this.session.kind === 'admin' || (this.session.kind === 'run' && run.startedBy.id === this.session.actor.id)
  }

  cancelButton() {
    const place = h('div', {})
    const { element } = confirmed({
      label: 'Cancel this run…',
      question: 'Stop it at its next step? A call in flight will still settle.',
      yes: 'Yes, stop it',
      style: 'danger',
      act: async () => {
        try {
          const { inFlight } = await api(`/runs/${this.id}/cancel`, { method: 'POST', body: {} })
          place.replaceChildren(
            message(
              inFlight === 0
                ? 'It stops now; nothing was in flight.'
                : `It stops after ${inFlight} call${inFlight === 1 ? '' : 's'} in flight.`,
            ),
          )
        } catch (error) {
          if (!(error instanceof Problem)) throw error
          place.replaceChildren(message(error.text, 'bad'))
        }
      },
    })
    place.append(element)
    return place
  }

  /** Updates in place, so that what a reader has opened stays open. */
  setSpan(span) {
    if (span.id === this.id) return
    if (span.kind === 'llm') this.spoken = ''
    const known = this.spans.get(span.id) ?? this.addSpan(span)
    known.summary.replaceChildren(...spanSummary(span))
    known.detail.replaceChildren(...spanDetail(span))
    if (span.kind === 'llm') this.speaking.hidden = true
  }

  addSpan(span) {
    const summary = h('summary', {})
    const detail = h('div', { class: 'detail' })
    const children = h('ul', {})
    const element = h('li', {}, h('details', {}, summary, detail), children)
    const added = {
      element,
      summary,
      detail,
      children,
      parentId: span.parentId,
      startedAt: span.startedAt,
      id: span.id,
    }
    this.spans.set(span.id, added)
    this.place(added)
    // A child may be told of before its parent: a read is written when it ends, its turn after it.
    for (const other of this.spans.values())
      if (other.parentId === span.id && other.element.parentElement !== children) this.place(other)
    return added
  }

  /** By start, among the children of its parent. */
  place(view) {
    const list = this.spans.get(view.parentId)?.children ?? this.tree
    const siblings = [...this.spans.values()].filter((other) => other !== view && other.element.parentElement === list)
    const next = siblings.filter((other) => isBefore(view, other)).sort((a, b) => (isBefore(a, b) ? -1 : 1))[0]
    list.insertBefore(view.element, next?.element ?? null)
  }
}

function isBefore(a, b) {
  return a.startedAt === b.startedAt ? a.id < b.id : a.startedAt < b.startedAt
}

function spanSummary(span) {
  const { attributes, approval } = span
  const parts = [
    h('span', { class: 'name' }, shown(span.kind === 'llm' ? `model turn, ${span.name}` : span.name)),
    spanStatus(span),
  ]
  if (span.endedAt !== null) parts.push(h('span', { class: 'quiet' }, duration(span.startedAt, span.endedAt)))
  if (attributes.replayed === true) parts.push(tag('replayed, not run again'))
  if (attributes.attempt > 1) parts.push(tag(`attempt ${attributes.attempt}`))
  if (typeof attributes.inputTokens === 'number')
    parts.push(tag(`${attributes.inputTokens} tokens in, ${attributes.outputTokens} out`))
  if (attributes.costCents > 0) parts.push(tag(cost(attributes.costCents)))
  if (approval !== null && approval.decidedBy !== null) parts.push(tag(`by ${approval.decidedBy.name}`))
  return parts
}

function spanStatus({ status: state, code, approval }) {
  if (approval !== null)
    return status(approval.state, approval.state === 'pending' ? 'waits for a person' : `held, ${approval.state}`)
  if (state === 'error') return status('error', code ?? 'error')
  return status(state)
}

function spanDetail(span) {
  const { decision, approval } = span
  const ruled =
    decision === null
      ? []
      : [
          [
            'Decision',
            `${decision.outcome}${decision.rule === null ? ', no rule matched' : ` by rule “${decision.rule}”`}`,
          ],
          ['Reason', decision.message],
          ['Facts', Object.keys(decision.facts).length === 0 ? null : JSON.stringify(decision.facts)],
          [
            'Shadow rules',
            Array.isArray(decision.shadow) && decision.shadow.length > 0 ? JSON.stringify(decision.shadow) : null,
          ],
        ]
  const answered =
    approval === null
      ? []
      : [
          ['Answer', `${approval.state}${approval.decidedBy === null ? '' : ` by ${approval.decidedBy.name}`}`],
          ['Note', approval.note],
        ]
  const times = [
    ['Started', new Date(span.startedAt).toLocaleString()],
    ['Span', span.id],
  ]
  return [
    facts([...ruled, ...answered, ...times]),
    ...payload('Input', span.input),
    ...payload(span.kind === 'llm' ? 'Text' : 'Answer', span.output),
  ]
}

function payload(name, value) {
  return value === null || value === '' ? [] : [h('div', { class: 'quiet' }, name), block(value)]
}

function tag(text) {
  return h('span', { class: 'tag' }, shown(text))
}

function cost(cents) {
  return cents === 0 ? 'no cost' : `${(cents / 100).toFixed(cents < 1 ? 4 : 2)} USD`
}
