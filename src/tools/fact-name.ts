/** What a condition may read besides facts. A fact can take none of these names. */
export const RESERVED_NAMES: readonly string[] = ['tool', 'egress', 'principal', 'run', 'arguments']

export function isReserved(name: string): boolean {
  return RESERVED_NAMES.includes(name)
}

const FACT_NAME = /^[a-z][a-z0-9_]{0,47}$/

/** Words of CEL and names of its types and namespaces: a fact under one of them could not be read, or would hide it. */
const CEL_WORDS: ReadonlySet<string> = new Set(
  (
    'as break const continue else false for function if import in let loop namespace null package return true var void ' +
    'while prototype bool bytes cel double dyn google int list map null_type optional string type uint'
  ).split(' '),
)

/** Whether a name means something to CEL itself, so that nothing else can be read under it. */
export function isCelWord(name: string): boolean {
  return CEL_WORDS.has(name)
}

/** Why a fact cannot have this name, or null when it can. */
export function factNameProblem(name: string): string | null {
  if (!FACT_NAME.test(name))
    return 'a fact name has lower-case letters, digits and underscores, at most 48, and starts with a letter'
  if (isReserved(name)) return `${name} is what every condition can read already`
  return isCelWord(name) ? `${name} is a word of the rule language` : null
}
