/** The verbs of `store` but for those given; others it may have are passed on as they are. */
export function withVerbs<T extends object>(store: T, verbs: Partial<T>): T {
  return new Proxy(store, {
    get(target, name) {
      const given: unknown = Object.hasOwn(verbs, name) ? Reflect.get(verbs, name) : Reflect.get(target, name)
      // A class keeps private state, which a proxy has none of.
      return typeof given === 'function' && !Object.hasOwn(verbs, name) ? given.bind(target) : given
    },
  })
}
