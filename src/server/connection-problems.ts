import type { SignInOutcome } from '../connections/oauth/return.ts'
import type { Refusal } from '../connections/service.ts'
import { HttpProblem, unknownId } from './problems.ts'

export function unknownConnection(): HttpProblem {
  return unknownId('connection', 'take the id from GET /api/v1/connections')
}

/** Why a connection was not made, renewed or removed. */
export function connectionProblem(refusal: Refusal): HttpProblem {
  switch (refusal.kind) {
    case 'not_found':
      return unknownConnection()
    case 'invalid': {
      const problems = refusal.problems.map(({ path, message }) => ({ path, message }))
      return new HttpProblem({
        code: 'invalid_input',
        detail: problems.map(({ path, message }) => `${path}: ${message}`).join('; '),
        remedy: 'correct the body; GET /api/v1/connections/providers says what each provider takes',
        extra: { problems },
      })
    }
    case 'unknown_provider':
      return new HttpProblem({
        code: 'invalid_input',
        detail: 'this deployment offers no such provider',
        remedy:
          refusal.known.length === 0
            ? 'add it to the providers of the config file'
            : `it offers ${refusal.known.join(', ')}`,
      })
    case 'other_auth':
      return otherAuth(refusal.auth)
    case 'label_taken':
      return new HttpProblem({
        code: 'conflict',
        detail: 'another connection of this provider has that label',
        remedy: 'choose another label, or reconnect the one that is there',
        extra: { connectionId: refusal.connection.id },
      })
    case 'refused':
      return new HttpProblem({
        code: 'conflict',
        detail: `the connection is ${refusal.state}`,
        remedy: 'a revoked connection stays revoked; connect the account anew',
        extra: { state: refusal.state },
      })
    case 'no_vault':
      return new HttpProblem({
        code: 'unavailable',
        detail: 'this server has no vault key, so it keeps no secrets',
        remedy: 'set BAILIFF_VAULT_KEY (openssl rand -base64 32) and start it again',
      })
    case 'unreachable':
      return new HttpProblem({
        code: 'unavailable',
        detail: 'the metadata of the provider cannot be read',
        remedy: 'check the issuer in the config file, and try again',
      })
    default:
      return refusal satisfies never
  }
}

function otherAuth(auth: 'secret' | 'oauth2'): HttpProblem {
  return auth === 'oauth2'
    ? new HttpProblem({
        code: 'invalid_input',
        detail: 'people sign in at this provider; it takes no secrets',
        remedy: 'begin with POST /api/v1/connections/authorize, or reconnect without secrets',
      })
    : new HttpProblem({
        code: 'invalid_input',
        detail: 'this provider takes secrets; nobody signs in at it',
        remedy: 'send the secrets with POST /api/v1/connections, or with the reconnect',
      })
}

/** What the person in front of the browser reads; it is the whole page. */
export interface SignInPage {
  readonly status: 200 | 400 | 403 | 409 | 502
  readonly title: string
  readonly text: string
}

export function signInPage(outcome: SignInOutcome): SignInPage {
  switch (outcome.kind) {
    case 'connected': {
      const { label, provider, account } = outcome.connection
      const who = account === null ? '' : ` as ${account}`
      return {
        status: 200,
        title: 'Connected',
        text: `${provider} “${label}” is connected${who}. You can close this page.`,
      }
    }
    case 'unknown':
      return failed(400, 'This sign-in is not known. It was finished before, or took longer than ten minutes.')
    case 'other_browser':
      return failed(403, 'This sign-in was begun in another browser. Begin it again in this one.')
    case 'declined':
      return failed(400, `The provider did not allow it (${outcome.code}).`)
    case 'unreachable':
      return failed(502, 'The provider could not be asked. Begin again in a while.')
    case 'misconfigured':
      return failed(502, `This server is not set up rightly as a client of the provider (${outcome.code}).`)
    case 'label_taken':
      return failed(409, 'Another connection has that label by now. Begin again with another one.')
    case 'gone':
      return failed(409, 'The connection was removed in the meantime.')
    case 'other_account':
      return failed(
        409,
        'Somebody else signed in than this connection belongs to. Sign in with its own account, or add a new connection.',
      )
    default:
      return outcome satisfies never
  }
}

function failed(status: SignInPage['status'], text: string): SignInPage {
  return { status, title: 'Not connected', text }
}
