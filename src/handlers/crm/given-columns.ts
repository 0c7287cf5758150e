/** The columns that a value was given for: what is left out stays as it is. */
export function givenColumns<T extends object>(values: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  const given = Object.entries(values).filter(([, value]) => value !== undefined)
  return Object.fromEntries(given) as { [Key in keyof T]?: Exclude<T[Key], undefined> }
}
