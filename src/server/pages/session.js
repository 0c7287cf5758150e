import { h, message } from './elements.js'

/** An answer of the server that is not what was asked for. */
export class Problem extends Error {
  constructor(status, body) {
    super(typeof body.detail === 'string' ? body.detail : `the server answered ${status}`)
    this.status = status
    this.body = body
  }

  /** What is wrong and what to do. */
  get text() {
    const parts = [this.message, this.body.remedy].filter((part) => typeof part === 'string')
    return parts.map((part) => `${part.charAt(0).toUpperCase()}${part.slice(1)}.`).join(' ')
  }
}

/** Called when the session is over. */
let onSignedOut = () => {}

export function whenSignedOut(listener) {
  onSignedOut = listener
}

/** Asks the API; throws a `Problem` for everything but a good answer. */
export async function api(path, { method = 'GET', body } = {}) {
  const init =
    body === undefined
      ? { method }
      : { method, body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }
  let response
  try {
    response = await fetch(`/api/v1${path}`, init)
  } catch {
    throw new Problem(0, { detail: 'the server does not answer', remedy: 'check that it runs, then try again' })
  }
  const answer = await response.json().catch(() => ({}))
  if (response.ok) return answer
  if (response.status === 401 && path !== '/session') onSignedOut()
  throw new Problem(response.status, answer)
}

/**
 * Answers who is signed in, or null. A token in the address is sent from here and not by opening the page, so that a
 * program that only looks at links cannot use it up.
 */
export async function openSession() {
  const address = new URL(location.href)
  const token = address.searchParams.get('token')
  if (token !== null) {
    address.searchParams.delete('token')
    history.replaceState(null, '', address)
    return api('/session', { method: 'POST', body: { token } })
  }
  try {
    return await api('/session')
  } catch (error) {
    if (error instanceof Problem && error.status === 401) return null
    throw error
  }
}

export async function signOut() {
  await api('/session', { method: 'DELETE' })
  location.assign('/')
}

/** The form for a key. `reason` says why it is shown, if there is something to say. */
export function signInForm(reason, onSignedIn) {
  const field = h('input', {
    type: 'password',
    id: 'key',
    name: 'key',
    autocomplete: 'current-password',
    required: true,
    'aria-describedby': 'key-hint',
  })
  const place = h('div', {}, reason === null ? '' : message(reason, 'bad'))
  const submit = async (event) => {
    event.preventDefault()
    try {
      onSignedIn(await api('/session', { method: 'POST', body: { apiKey: field.value.trim() } }))
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      place.replaceChildren(message(error.text, 'bad'))
      field.focus()
    }
  }
  return h(
    'form',
    { class: 'sheet', on: { submit } },
    h('h1', {}, 'Sign in'),
    h('label', { for: 'key' }, 'API key'),
    field,
    h(
      'p',
      { class: 'quiet', id: 'key-hint' },
      'A key starts with bk_. The server prints a one-time link to this page when it starts; opening that link signs you in without a key.',
    ),
    h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'primary' }, 'Sign in')),
    place,
  )
}
