/** One thing that is wrong with one declaration. */
export interface RegistryFault {
  /** Platform name as it was declared. */
  readonly tool: string
  /** Option of the declaration that is wrong. */
  readonly field: string
  readonly message: string
  readonly remedy: string
}

/** Every fault of every tool at once, in words a person reads. Nothing was registered. */
export class RegistryError extends Error {
  override readonly name = 'RegistryError'
  readonly faults: readonly RegistryFault[]
  constructor(faults: readonly RegistryFault[]) {
    super(readable(faults))
    this.faults = faults
  }
}

function readable(faults: readonly RegistryFault[]): string {
  const byTool = Map.groupBy(faults, (fault) => fault.tool)
  const count = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? '' : 's'}`
  const lines = [`${count(faults.length, 'fault')} in ${count(byTool.size, 'declaration')}; nothing was registered`]
  for (const [tool, list] of byTool) {
    lines.push('', `  ${shown(tool)}`)
    for (const { field, message, remedy } of list) lines.push(`    ${field}: ${message}`, `      ${remedy}`)
  }
  return lines.join('\n')
}

/** Names may come from a server: shown as text of one line, never as what they want to look like. */
function shown(name: string): string {
  const text = JSON.stringify(name).slice(1, -1)
  return text === '' ? '(no name)' : text.slice(0, 140)
}
