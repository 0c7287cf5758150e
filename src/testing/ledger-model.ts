import type { ApprovalKind } from '../tools/invoker.ts'
import type { ToolResult } from '../tools/models.ts'
import type { Decided } from '../approvals/approval-store.ts'

/** A call by its tool and its one argument. Two tools share the key of one argument: the key names no tool. */
export interface ModelCall {
  readonly tool: string
  readonly text: string
  readonly onUnknown: 'reclaim' | 'ask'
}

interface Claim {
  status: 'processing' | 'completed' | 'reclaimable'
  attempt: number
  owner: string
  live: boolean
  /** Taken over from a worker that may have had the effect. */
  inherited: boolean
  result: ToolResult | null
}

interface Question {
  readonly id: string
  readonly call: ModelCall
  readonly kind: ApprovalKind
  state: 'pending' | Decided['state']
  due: boolean
}

/** What a journal and its approvals are, written down as plainly as possible and nowhere near the SQL. */
export class LedgerModel {
  rulesVersion = 0
  cancelled = false
  readonly #claims = new Map<string, Claim>()
  readonly #questions: Question[] = []
  readonly #granted: Map<string, boolean>
  readonly #enabled: Map<string, boolean>

  constructor(tools: readonly string[]) {
    this.#granted = new Map(tools.map((tool) => [tool, true]))
    this.#enabled = new Map(tools.map((tool) => [tool, true]))
  }

  claim(call: ModelCall): Readonly<Claim> | null {
    return this.#claims.get(nameOf(call)) ?? null
  }

  granted(tool: string): boolean {
    return this.#granted.get(tool) === true
  }

  enabled(tool: string): boolean {
    return this.#enabled.get(tool) === true
  }

  /** Nobody knows whether it arrived, and the tool wants a person to say. */
  unknown(call: ModelCall): boolean {
    const claim = this.claim(call)
    return call.onUnknown === 'ask' && claim?.status === 'processing' && !claim.live
  }

  /** The newest handed question about doing this very call. */
  covering(call: ModelCall, handed: readonly string[]): string | null {
    const about = this.#questions.filter(
      (one) => one.kind === 'action' && handed.includes(one.id) && nameOf(one.call) === nameOf(call),
    )
    return about.at(-1)?.id ?? null
  }

  file(call: ModelCall, id: string, kind: ApprovalKind): object {
    const refused = this.#questions.some(
      (one) => one.kind === 'action' && one.state === 'rejected' && nameOf(one.call) === nameOf(call),
    )
    if (kind === 'action' && refused) return { kind: 'rejected' }
    const open = this.#questions.find((one) => one.state === 'pending' && one.call.text === call.text)
    if (open !== undefined) {
      return { kind: 'pending', approvalId: open.id, sameCall: nameOf(open.call) === nameOf(call) }
    }
    this.#questions.push({ id, call, kind, state: 'pending', due: false })
    return { kind: 'filed', approvalId: id }
  }

  take(call: ModelCall, by: { readonly owner: string; readonly moved: boolean }) {
    const claim = this.#claims.get(nameOf(call))
    if (claim?.status === 'completed') return { kind: 'completed', result: claim.result } as const
    const ground = !by.moved && !this.cancelled && this.granted(call.tool) && this.enabled(call.tool)
    if (!ground) return { kind: 'moved' } as const
    if (claim?.status === 'processing' && claim.live) return { kind: 'processing' } as const
    if (this.unknown(call)) return { kind: 'unknown' } as const
    const attempt = (claim?.attempt ?? 0) + 1
    const inherited = claim?.status === 'processing'
    this.#claims.set(nameOf(call), {
      status: 'processing',
      attempt,
      owner: by.owner,
      live: true,
      inherited,
      result: null,
    })
    return { kind: 'claimed', attempt } as const
  }

  end(
    call: ModelCall,
    by: { readonly owner: string; readonly ending: 'complete' | 'release' | 'hold'; readonly result: ToolResult },
  ): 'owned' | 'stale' {
    const claim = this.#claims.get(nameOf(call))
    if (claim?.status !== 'processing' || claim.owner !== by.owner) return 'stale'
    if (by.ending === 'complete') Object.assign(claim, { status: 'completed', result: by.result })
    if (by.ending === 'release' && claim.inherited) claim.live = false
    else if (by.ending === 'release') this.#claims.delete(nameOf(call))
    return 'owned'
  }

  /** Answers the state the question was found in. */
  answer(id: string, decided: Decided): string | null {
    const question = this.#questions.find((one) => one.id === id)
    if (question === undefined) return null
    const found = question.state
    if (found === 'pending') this.#close(question, decided)
    return found
  }

  makeDue(id: string): void {
    const question = this.#questions.find((one) => one.id === id)
    if (question !== undefined) question.due = true
  }

  expireDue(left: ToolResult): void {
    for (const question of this.#questions) {
      if (question.state !== 'pending' || !question.due) continue
      const claim = question.kind === 'outcome' ? ({ kind: 'complete', result: left } as const) : null
      this.#close(question, { state: 'expired', by: null, note: null, claim })
    }
  }

  setGranted(tool: string, granted: boolean): void {
    this.#granted.set(tool, granted)
  }

  setEnabled(tool: string, enabled: boolean): void {
    this.#enabled.set(tool, enabled)
  }

  changeRules(): void {
    this.rulesVersion += 1
  }

  cancel(): void {
    this.cancelled = true
  }

  expireLeases(): void {
    for (const claim of this.#claims.values()) claim.live = false
  }

  /** An answer about an outcome settles the claim, unless its worker came back and did. */
  #close(question: Question, decided: Decided): void {
    question.state = decided.state
    const claim = this.#claims.get(nameOf(question.call))
    if (decided.claim === null || claim?.status !== 'processing' || claim.live) return
    if (decided.claim.kind === 'reclaim') claim.status = 'reclaimable'
    else Object.assign(claim, { status: 'completed', result: decided.claim.result })
  }
}

function nameOf(call: ModelCall): string {
  return `${call.tool} ${call.text}`
}
