import { h, message, shown } from './elements.js'
import { inbox } from './inbox.js'
import { runPage } from './run.js'
import { openSession, Problem, signInForm, signOut, whenSignedOut } from './session.js'

const main = document.getElementById('main')

whenSignedOut(() => askForKey('You are no longer signed in.'))
await begin()

async function begin() {
  try {
    const session = await openSession()
    if (session === null) askForKey(null)
    else await show(session)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    if (error.status === 401 || error.status === 429) askForKey(error.text)
    else fail(error)
  }
}

function askForKey(reason) {
  document.getElementById('sign-out').hidden = true
  main.replaceChildren(signInForm(reason, show))
}

async function show(session) {
  frame(session)
  const run = /^\/runs\/([^/]+)$/.exec(location.pathname)?.[1]
  try {
    await (run === undefined ? inbox(main, session) : runPage(main, session, run))
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    if (error.status !== 401) fail(error)
  }
}

/** Who is signed in, and what nobody may take for real. */
function frame({ actor, organization, server }) {
  document.getElementById('who').replaceChildren(shown(`${actor.name} · ${organization.name}`))
  const out = document.getElementById('sign-out')
  out.hidden = false
  out.addEventListener('click', () => void signOut())
  const banner = document.getElementById('banner')
  const words = [
    server.scripted ? `Scripted model (${server.model}): no language model is running.` : null,
    organization.selfApproval ? 'Self-approval is on: who starts a run may decide on its calls.' : null,
  ].filter((line) => line !== null)
  banner.hidden = words.length === 0
  banner.textContent = words.join(' ')
}

function fail(error) {
  main.replaceChildren(message(error.text, 'bad'), h('p', {}, h('a', { href: '/' }, 'To the approvals')))
}
