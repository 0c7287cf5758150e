/** Something about a definition that keeps it from being published. */
export interface WorkflowFault {
  /** Id of the node; null for the workflow as a whole. */
  readonly node: string | null
  readonly field: string
  readonly message: string
  readonly remedy: string
}

export function faultLine({ node, field, message, remedy }: WorkflowFault): string {
  return `${node === null ? '' : `node ${node}, `}${field}: ${message}; ${remedy}`
}

export function wholeFault(field: string, message: string, remedy: string): WorkflowFault {
  return { node: null, field, message, remedy }
}

/** A fault of one node, in four words: where, in which field, what, and what to do. */
export function nodeFault(node: string, field: string, ...[message, remedy]: readonly [string, string]): WorkflowFault {
  return { node, field, message, remedy }
}
