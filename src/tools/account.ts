import { ConnectionError } from './errors.ts'
import type { AdmittedCall, ConnectionRequest, ConnectionResolver } from './invoker.ts'
import { own } from './json.ts'

/**
 * Which account a call acts with: the one a person approved, else the one the model chose by its public
 * \`connection_id\` argument, else the only one there is. Null for a tool that needs no account.
 */
export function connectionRequest(call: AdmittedCall, approved: string | null): ConnectionRequest | null {
  const { connection } = call.spec
  if (connection === null) return null
  const chosen = own(call.args, 'connection_id')
  return {
    organizationId: call.invocation.organizationId,
    provider: connection,
    connectionId: approved ?? (typeof chosen === 'string' ? chosen : null),
  }
}

/** The account a question is asked about; null when none can be used, which the call itself will say if it is allowed. */
export async function accountOf(
  connections: Pick<ConnectionResolver, 'choose'>,
  call: AdmittedCall,
  approved: string | null,
): Promise<string | null> {
  const request = connectionRequest(call, approved)
  if (request === null) return null
  try {
    return await connections.choose(request)
  } catch (error) {
    if (error instanceof ConnectionError) return null
    throw error
  }
}
