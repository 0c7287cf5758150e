/** `stale`: what the person looked at had moved by the time they answered. Every state but `pending` is terminal. */
export type ApprovalState = 'pending' | 'approved' | 'rejected' | 'expired' | 'cancelled' | 'stale'

export interface CoverageSubject {
  readonly organizationId: string
  readonly runId: string
  readonly action: string
  readonly argumentsHash: string
}

/** An approval covers a call when organization, run, action and arguments hash match: exactly these four. */
export function covers(approval: CoverageSubject, call: CoverageSubject): boolean {
  return (
    approval.organizationId === call.organizationId &&
    approval.runId === call.runId &&
    approval.action === call.action &&
    approval.argumentsHash === call.argumentsHash
  )
}

export type ApprovalReading = 'none' | 'approved' | 'refused' | 'pending'

/**
 * What a handed approval says about a call. One that names another proposal, or closed as stale or cancelled, says
 * nothing: the call is decided live. An expired one is a refusal, because asking again would never end.
 */
export function readApproval(
  approval: (CoverageSubject & { readonly state: ApprovalState }) | null,
  call: CoverageSubject,
): ApprovalReading {
  if (approval === null || !covers(approval, call)) return 'none'
  switch (approval.state) {
    case 'approved':
      return 'approved'
    case 'rejected':
    case 'expired':
      return 'refused'
    case 'pending':
      return 'pending'
    case 'cancelled':
    case 'stale':
      return 'none'
  }
}
