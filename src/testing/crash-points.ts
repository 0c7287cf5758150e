/** Named after the port and the verb it stands beside: `ledger.claim:after`. */
export type CrashPoint = `${string}.${string}:${'before' | 'after'}`

/** Told of every point that is reached. To die there, it does not return. */
export type Reach = (point: CrashPoint) => void

/**
 * Puts a named point before and after every verb of a port. Between two ports the decision path computes and touches
 * nothing outside, so these are all the places where a crash can differ from another.
 */
export function withCrashPoints(reach: Reach): <T extends object>(port: string, implementation: T) => T {
  return (port, implementation) =>
    new Proxy(implementation, {
      get(target, verb) {
        const member: unknown = Reflect.get(target, verb, target)
        if (typeof member !== 'function' || typeof verb === 'symbol') return member
        return (...given: unknown[]): unknown => {
          reach(`${port}.${verb}:before`)
          const answer: unknown = Reflect.apply(member, target, given)
          if (!(answer instanceof Promise)) return answer
          return answer.then((value: unknown) => {
            reach(`${port}.${verb}:after`)
            return value
          })
        }
      },
    })
}
