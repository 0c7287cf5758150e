/** A pattern in RE2's own syntax. */
export interface TranslatedPattern {
  readonly text: string
  /** Instructions the compiled program will have, roughly: counted repetitions are written out. */
  readonly size: number
}

/**
 * Rewrites an ECMA-262 pattern, the dialect of JSON Schema, into RE2 syntax that means the same. The two agree in most
 * of what they spell alike, and differ where it hurts: in RE2 `.` matches a carriage return, `\s` knows ASCII only and
 * `[[:alpha:]]` is a named class. Every character outside of letters and digits leaves here as its code point, so
 * nothing is left for RE2 to read in its own way.
 *
 * Three spellings that ECMA-262 does not have are read as their authors mean them, because tools written in Python and
 * Ruby publish them: `\A`, `\z` or `\Z`, and a leading `(?i)`.
 *
 * Null for what RE2 cannot express (look-around, back references) and for what is no pattern.
 */
export function toRe2(pattern: string): TranslatedPattern | null {
  const scan: Scan = { points: Array.from(pattern), at: 0, out: [], open: [], size: 0, last: 0 }
  try {
    if (pattern.startsWith('(?i)')) {
      scan.at = 4
      scan.out.push('(?i)')
    }
    while (scan.at < scan.points.length) step(scan)
    return scan.open.length > 0 ? null : { text: scan.out.join('') || '(?:)', size: scan.size + 2 }
  } catch (error) {
    if (error instanceof Untranslatable) return null
    throw error
  }
}

class Untranslatable extends Error {}

interface Scan {
  readonly points: readonly string[]
  at: number
  readonly out: string[]
  /** Sizes of the groups that are open around this place, up to where each began. */
  readonly open: number[]
  size: number
  /** Size of what a quantifier would repeat. */
  last: number
}

const ANY_POINT = String.raw`\x{0}-\x{10ffff}`
const LINE_ENDS = String.raw`\n\r\x{2028}\x{2029}`
const SPACES = String.raw`\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
const NO_SPACES = [
  String.raw`\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}`,
  String.raw`\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`,
].join('')

/** Escapes that stand for a set, as they are written inside of brackets. */
const SETS: ReadonlyMap<string, string> = new Map([
  ['d', '0-9'],
  ['D', String.raw`\x{0}-\x{2f}\x{3a}-\x{10ffff}`],
  ['w', '0-9A-Z_a-z'],
  ['W', String.raw`\x{0}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{5e}\x{60}\x{7b}-\x{10ffff}`],
  ['s', SPACES],
  ['S', NO_SPACES],
])

const CONTROLS: ReadonlyMap<string, number> = new Map([
  ['t', 9],
  ['n', 10],
  ['v', 11],
  ['f', 12],
  ['r', 13],
])

/** RE2 knows the short names only. */
const CATEGORIES: ReadonlyMap<string, string> = new Map(
  `Letter=L Uppercase_Letter=Lu Lowercase_Letter=Ll Titlecase_Letter=Lt Modifier_Letter=Lm Other_Letter=Lo Mark=M
  Combining_Mark=M Nonspacing_Mark=Mn Spacing_Mark=Mc Enclosing_Mark=Me Number=N Decimal_Number=Nd digit=Nd
  Letter_Number=Nl Other_Number=No Punctuation=P punct=P Connector_Punctuation=Pc Dash_Punctuation=Pd
  Open_Punctuation=Ps Close_Punctuation=Pe Initial_Punctuation=Pi Final_Punctuation=Pf Other_Punctuation=Po Symbol=S
  Math_Symbol=Sm Currency_Symbol=Sc Modifier_Symbol=Sk Other_Symbol=So Separator=Z Space_Separator=Zs
  Line_Separator=Zl Paragraph_Separator=Zp Other=C Control=Cc cntrl=Cc Format=Cf Surrogate=Cs Private_Use=Co`
    .split(/\s+/)
    .map((pair) => pair.split('=') as [string, string]),
)

function step(scan: Scan): void {
  const point = scan.points[scan.at] ?? ''
  switch (point) {
    case '\\':
      return escapeSequence(scan)
    case '[':
      return emit(scan, bracket(scan))
    case '(':
      return openGroup(scan)
    case ')':
      return closeGroup(scan)
    case '{':
      return counted(scan)
    case '.':
      scan.at += 1
      return emit(scan, `[^${LINE_ENDS}]`)
    case '^':
    case '$':
    case '|':
    case '*':
    case '+':
    case '?':
      scan.at += 1
      scan.size += 1
      scan.out.push(point)
      return
    default:
      scan.at += 1
      emit(scan, literal(point.codePointAt(0) ?? 0))
  }
}

/** One thing that a quantifier can repeat. */
function emit(scan: Scan, text: string): void {
  scan.out.push(text)
  scan.last = 1
  scan.size += 1
}

function literal(point: number): string {
  const text = String.fromCodePoint(point)
  return /^[0-9A-Za-z]$/.test(text) ? text : String.raw`\x{${point.toString(16)}}`
}

/** Groups capture nothing: no back reference is left that could read them. */
function openGroup(scan: Scan): void {
  const head = scan.points.slice(scan.at, scan.at + 4).join('')
  if (head.startsWith('(?i:')) skip(scan, 4, '(?i:')
  else if (head.startsWith('(?:')) skip(scan, 3, '(?:')
  else if (head.startsWith('(?<') && !/^\(\?<[=!]/.test(head)) skip(scan, nameEnd(scan, 3), '(?:')
  else if (head.startsWith('(?P<')) skip(scan, nameEnd(scan, 4), '(?:')
  else if (head.startsWith('(?')) throw new Untranslatable()
  else skip(scan, 1, '(?:')
  scan.open.push(scan.size)
}

function skip(scan: Scan, points: number, written: string): void {
  scan.at += points
  scan.out.push(written)
}

function nameEnd(scan: Scan, from: number): number {
  const close = scan.points.indexOf('>', scan.at + from)
  const name = scan.points.slice(scan.at + from, close).join('')
  if (close < 0 || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) throw new Untranslatable()
  return close - scan.at + 1
}

function closeGroup(scan: Scan): void {
  const began = scan.open.pop()
  if (began === undefined) throw new Untranslatable()
  scan.at += 1
  scan.out.push(')')
  scan.last = scan.size - began
}

/** `{2,5}` repeats; a brace that opens no count is a character. */
function counted(scan: Scan): void {
  const count = /^\{(\d{1,4})(,(\d{0,4}))?\}/.exec(scan.points.slice(scan.at, scan.at + 12).join(''))
  if (count === null) {
    scan.at += 1
    return emit(scan, literal(0x7b))
  }
  const [text, least = '0', , most = least] = count
  scan.at += text.length
  scan.out.push(text)
  // What may be left out takes a branch each time.
  scan.size += scan.last * (Number(least) + 2 * Math.max(0, Number(most) - Number(least)) + 1)
}

function escapeSequence(scan: Scan): void {
  const anchor = { b: String.raw`\b`, B: String.raw`\B`, A: '^', z: '$', Z: '$' }[scan.points[scan.at + 1] ?? '']
  if (anchor !== undefined) {
    scan.at += 2
    scan.size += 1
    scan.out.push(anchor)
    return
  }
  const atom = escaped(scan)
  emit(scan, typeof atom === 'number' ? literal(atom) : `[${atom}]`)
}

/** What an escape stands for, inside of brackets or out: a code point, or a set as it is written inside of brackets. */
function escaped(scan: Scan): number | string {
  const name = scan.points[scan.at + 1]
  if (name === undefined) throw new Untranslatable()
  const set = SETS.get(name)
  const control = CONTROLS.get(name)
  if (set !== undefined || control !== undefined) {
    scan.at += 2
    return set ?? control ?? 0
  }
  if (name === 'p' || name === 'P') return property(scan, name === 'P')
  if (name === 'x' || name === 'u' || name === 'c' || name === '0') return coded(scan)
  // Every other letter or digit is a back reference, or nothing that ECMA-262 knows.
  if (/^[0-9A-Za-z]$/.test(name)) throw new Untranslatable()
  scan.at += 2
  return name.codePointAt(0) ?? 0
}

const CODED: readonly (readonly [form: RegExp, point: (digits: string) => number])[] = [
  [/^\\x([0-9a-fA-F]{2})/, (digits) => Number.parseInt(digits, 16)],
  [/^\\u\{([0-9a-fA-F]{1,8})\}/, (digits) => Number.parseInt(digits, 16)],
  [
    /^\\u([dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})/,
    (pair) => (Number.parseInt(pair, 16) - 0xd800) * 0x400 + Number.parseInt(pair.slice(6), 16) - 0xdc00 + 0x10000,
  ],
  [/^\\u([0-9a-fA-F]{4})/, (digits) => Number.parseInt(digits, 16)],
  [/^\\c([a-zA-Z])/, (letter) => letter.charCodeAt(0) % 32],
  [/^\\0()(?![0-9])/, () => 0],
]

function coded(scan: Scan): number {
  const ahead = scan.points.slice(scan.at, scan.at + 12).join('')
  for (const [form, point] of CODED) {
    const found = form.exec(ahead)
    if (found === null) continue
    const value = point(found[1] ?? '')
    // Half a character stands in no text that gets here, and RE2 does not know what to make of one.
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) break
    scan.at += found[0].length
    return value
  }
  throw new Untranslatable()
}

/** `\p{Letter}`, `\p{gc=Lu}`, `\p{Script=Greek}`; RE2 itself refuses the names it does not have. */
function property(scan: Scan, negated: boolean): string {
  const close = scan.points.indexOf('}', scan.at)
  const found = /^\{(?:(\w+)=)?(\w+)\}$/.exec(scan.points.slice(scan.at + 2, close + 1).join(''))
  if (close < 0 || found === null) throw new Untranslatable()
  const [, kind, name = ''] = found
  if (kind !== undefined && !['gc', 'General_Category', 'sc', 'Script'].includes(kind)) throw new Untranslatable()
  scan.at = close + 1
  if (kind === undefined && name === 'ASCII') return negated ? String.raw`\x{80}-\x{10ffff}` : String.raw`\x{0}-\x{7f}`
  if (kind === undefined && name === 'Any' && !negated) return ANY_POINT
  return `\\${negated ? 'P' : 'p'}{${CATEGORIES.get(name) ?? name}}`
}

function bracket(scan: Scan): string {
  const negated = scan.points[scan.at + 1] === '^'
  scan.at += negated ? 2 : 1
  const parts: string[] = []
  while (scan.points[scan.at] !== ']') {
    const from = member(scan)
    const ranged = scan.points[scan.at] === '-' && ![']', undefined].includes(scan.points[scan.at + 1])
    if (!ranged) {
      parts.push(typeof from === 'number' ? literal(from) : from)
      continue
    }
    scan.at += 1
    parts.push(range(from, member(scan)))
  }
  scan.at += 1
  // An empty class matches nothing, and its opposite everything; RE2 has no spelling for either.
  if (parts.length === 0) return negated ? `[${ANY_POINT}]` : `[^${ANY_POINT}]`
  return `[${negated ? '^' : ''}${parts.join('')}]`
}

/** Beside a set a hyphen is a hyphen. */
function range(from: number | string, to: number | string): string {
  if (typeof from === 'number' && typeof to === 'number') {
    if (from > to) throw new Untranslatable()
    return `${literal(from)}-${literal(to)}`
  }
  return [from, 0x2d, to].map((part) => (typeof part === 'number' ? literal(part) : part)).join('')
}

function member(scan: Scan): number | string {
  const point = scan.points[scan.at]
  if (point === undefined) throw new Untranslatable()
  if (point !== '\\') {
    scan.at += 1
    return point.codePointAt(0) ?? 0
  }
  if (scan.points[scan.at + 1] === 'b') {
    scan.at += 2
    return 8
  }
  return escaped(scan)
}
