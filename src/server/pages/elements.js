/**
 * Builds elements. Text only ever becomes text: nothing here, and nothing that uses it, writes markup.
 *
 * @param {string} tag
 * @param {object} [properties] attributes as text or true, and `on`: listeners by event
 * @param {...(Node | string | null)} children
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (name === 'on') for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener)
    else if (value === true) element.setAttribute(name, '')
    else if (typeof value === 'string') element.setAttribute(name, value)
  }
  element.append(...children.filter((child) => child !== null))
  return element
}

/** Characters that are not seen or that change what is seen: controls, direction overrides, zero-width characters, tags. */
const UNSEEN = /(?!\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** Text of a model, a tool or a person, with what the eye would miss spelled out and marked. */
export function shown(text, { lines = false } = {}) {
  const fragment = document.createDocumentFragment()
  let from = 0
  for (const match of text.matchAll(UNSEEN)) {
    const [character] = match
    if (lines && (character === '\n' || character === '\t')) continue
    const code = character.codePointAt(0).toString(16)
    fragment.append(
      text.slice(from, match.index),
      h(
        'span',
        { class: 'unseen', title: `invisible character U+${code.toUpperCase().padStart(4, '0')}` },
        `\\u{${code}}`,
      ),
    )
    from = match.index + character.length
  }
  fragment.append(text.slice(from))
  return fragment
}

/** A block of JSON, or of text as it is. */
export function block(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2)
  return h('pre', { tabindex: '0' }, shown(text ?? 'null', { lines: true }))
}

/** Pairs of a name and what stands for it; pairs without a value are left out. */
export function facts(pairs) {
  const shownPairs = pairs.filter(([, value]) => value !== null && value !== undefined)
  return h(
    'dl',
    { class: 'facts' },
    ...shownPairs.flatMap(([name, value]) => [
      h('dt', {}, name),
      h('dd', {}, typeof value === 'string' ? shown(value) : value),
    ]),
  )
}

/** Texts deeper than this stand in the JSON alone. */
const MAX_DEPTH = 6

/** Texts inside a value that JSON makes hard to read, each as it reads: what a person sends is what they should have read. */
export function longTexts(value, name = '', depth = 0) {
  if (typeof value === 'string') {
    return value.length > 100 || value.includes('\n')
      ? [h('details', { class: 'texts', open: true }, h('summary', {}, shown(`${name} as it reads`)), block(value))]
      : []
  }
  if (typeof value !== 'object' || value === null || depth === MAX_DEPTH) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    longTexts(inner, name === '' ? key : `${name}.${key}`, depth + 1),
  )
}

const UNITS = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

/** When, as people say it, kept up to date; the exact time is in the title. */
export function when(iso) {
  return h('time', { datetime: iso, title: new Date(iso).toLocaleString() }, relative(iso))
}

setInterval(() => {
  for (const time of document.querySelectorAll('time')) time.textContent = relative(time.dateTime)
}, 5_000)

function relative(iso) {
  const seconds = (Date.parse(iso) - Date.now()) / 1000
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1]
  return RELATIVE.format(Math.round(seconds / size), unit)
}

export function duration(from, to) {
  const ms = Date.parse(to) - Date.parse(from)
  if (ms < 1_000) return `${ms} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  return ms < 3_600_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`
}

const TONES = {
  completed: 'good',
  ok: 'good',
  approved: 'good',
  failed: 'bad',
  error: 'bad',
  rejected: 'bad',
  cancelled: 'bad',
  stale: 'bad',
  expired: 'bad',
  partial: 'wait',
  parked: 'wait',
  pending: 'wait',
}

/** A state in words; the colour only repeats it. */
export function status(state, words = state) {
  return h('span', { class: `status ${TONES[state] ?? ''}` }, words)
}

export function message(text, tone = '') {
  return h('p', { class: `message ${tone}`, role: tone === 'bad' ? 'alert' : 'status' }, shown(text))
}

/** A button that asks once more before it acts; focus stays where the person is. */
export function confirmed({ label, question, yes, style = '', act }) {
  const place = h('span', { class: 'actions' })
  const ask = h('button', { type: 'button', class: style }, label)
  const sure = h('button', { type: 'button', class: style === 'danger' ? 'danger' : 'primary' }, yes)
  const back = h('button', { type: 'button' }, 'Back')
  ask.addEventListener('click', () => {
    place.replaceChildren(h('span', {}, question), sure, back)
    sure.focus()
  })
  back.addEventListener('click', () => {
    place.replaceChildren(ask)
    ask.focus()
  })
  sure.addEventListener('click', () => act())
  place.append(ask)
  return { element: place, ask }
}

/** Said to screen readers without moving anything. */
export function announce(text) {
  document.getElementById('announcer').textContent = text
}
