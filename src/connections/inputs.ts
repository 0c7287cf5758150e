import type { ConnectionProvider, SecretField } from './provider.ts'

/** Something a person typed that cannot be taken. Never repeats a value: it may be a secret in the wrong place. */
export interface InputProblem {
  readonly path: string
  readonly message: string
}

export type Checked<T> =
  | { readonly kind: 'valid'; readonly value: T }
  | { readonly kind: 'invalid'; readonly problems: readonly InputProblem[] }

type Texts = Readonly<Record<string, string>>

const MAX_LABEL = 80
/** Certificates and service-account files included. */
const MAX_SECRET = 16_384
const MAX_SETTING = 2_000
const MAX_SETTINGS = 50

export function checkLabel(label: string): Checked<string> {
  const trimmed = label.trim()
  if (trimmed === '' || trimmed.length > MAX_LABEL || /\p{C}/u.test(trimmed))
    return invalid([{ path: 'label', message: `a label is 1 to ${MAX_LABEL} visible characters` }])
  return { kind: 'valid', value: trimmed }
}

export async function checkSettings(
  { settings: schema }: ConnectionProvider,
  settings: Texts,
): Promise<Checked<Texts>> {
  const entries = Object.entries(settings)
  if (entries.length > MAX_SETTINGS || entries.some(([, value]) => value.length > MAX_SETTING))
    return invalid([
      { path: 'settings', message: `at most ${MAX_SETTINGS}, each of at most ${MAX_SETTING} characters` },
    ])
  if (schema === undefined) {
    return entries.length === 0
      ? { kind: 'valid', value: {} }
      : invalid([{ path: 'settings', message: 'this provider takes no settings' }])
  }
  const parsed = await schema.safeParseAsync(settings)
  if (parsed.success) return { kind: 'valid', value: parsed.data }
  return invalid(
    parsed.error.issues.slice(0, 20).map(({ path, message }) => ({ path: ['settings', ...path].join('.'), message })),
  )
}

/** Exactly the declared fields, each a text. */
export function checkSecrets(fields: readonly SecretField[], secrets: Texts): Checked<Texts> {
  const names = fields.map(({ name }) => name)
  const problems = [
    ...Object.keys(secrets)
      .filter((name) => !names.includes(name))
      .map(() => ({ path: 'secrets', message: `this provider takes ${names.join(', ')} and nothing else` })),
    ...fields.flatMap((field) => problemOf(field, secrets)),
  ]
  if (problems.length > 0) return invalid(problems)
  const given = fields.flatMap(({ name }) => (isGiven(secrets, name) ? [[name, secrets[name] ?? ''] as const] : []))
  return { kind: 'valid', value: Object.fromEntries(given) }
}

function problemOf({ name, title, optional = false }: SecretField, secrets: Texts): InputProblem[] {
  const path = `secrets.${name}`
  if (!isGiven(secrets, name)) return optional ? [] : [{ path, message: `${title} is missing` }]
  return (secrets[name] ?? '').length > MAX_SECRET
    ? [{ path, message: `${title} is longer than ${MAX_SECRET} characters` }]
    : []
}

function isGiven(secrets: Texts, name: string): boolean {
  return Object.hasOwn(secrets, name) && secrets[name] !== ''
}

function invalid(problems: readonly InputProblem[]): { readonly kind: 'invalid'; readonly problems: typeof problems } {
  return { kind: 'invalid', problems }
}
