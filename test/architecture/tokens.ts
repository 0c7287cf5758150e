/** One token of TypeScript source: enough of the language to find imports, names and literals, and no more. */
export interface Token {
  readonly kind: 'word' | 'string' | 'template' | 'number' | 'regex' | 'mark'
  /** Of a string or a piece of a template, what stands between its quotes, escapes as written. */
  readonly text: string
  readonly line: number
}

export interface Comment {
  readonly text: string
  readonly line: number
}

export interface Source {
  readonly tokens: readonly Token[]
  readonly comments: readonly Comment[]
}

const WORD = /[\p{ID_Start}$_#@][\p{ID_Continue}$\u200c\u200d]*/uy
const NUMBER = /\d[\w.]*/y
const SPACE = /\s+/y
const LINE_COMMENT = /\/\/[^\n]*/y
const BLOCK_COMMENT = /\/\*[\s\S]*?\*\//y
const STRING = /'(?:[^'\\\n]|\\[\s\S])*'|"(?:[^"\\\n]|\\[\s\S])*"/y
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y
/** A piece of a template, up to its end or to the next `${`. */
const TEMPLATE_PIECE = /((?:[^`\\$]|\\[\s\S]|\$(?!\{))*)(`|\$\{)/y

/** Words after which a slash begins a regular expression. */
const BEFORE_REGEX = new Set(['return', 'typeof', 'case', 'in', 'of', 'void', 'delete', 'await', 'yield', 'throw'])

/**
 * Splits source text into tokens and comments, so that a rule about code is never met by a comment or a string.
 * @throws Error where the text is not understood: a scanner that skips what it cannot read would prove nothing
 */
export function tokensOf(source: string): Source {
  return new Lexer(source).run()
}

class Lexer {
  readonly #source: string
  readonly #tokens: Token[] = []
  readonly #comments: Comment[] = []
  /** Open braces inside each template expression that is open. */
  readonly #templates: number[] = []
  #at = 0
  #line = 1

  constructor(source: string) {
    this.#source = source.startsWith('#!') ? `//${source}` : source
  }

  run(): Source {
    while (this.#at < this.#source.length) this.#next()
    if (this.#templates.length > 0) throw new Error('a template never ends')
    return { tokens: this.#tokens, comments: this.#comments }
  }

  #next(): void {
    if (this.#match(SPACE) !== null) return
    const line = this.#line
    const comment = this.#match(LINE_COMMENT) ?? this.#match(BLOCK_COMMENT)
    if (comment !== null) {
      this.#comments.push({ text: comment[0], line })
      return
    }
    const string = this.#match(STRING)
    if (string !== null) return this.#push('string', string[0].slice(1, -1), line)
    const word = this.#match(WORD)
    if (word !== null) return this.#push('word', word[0], line)
    const number = this.#match(NUMBER)
    if (number !== null) return this.#push('number', number[0], line)
    if (this.#source[this.#at] === '/' && this.#mayBeginRegex()) {
      const regex = this.#match(REGEX)
      if (regex !== null) return this.#push('regex', regex[0], line)
    }
    this.#mark(line)
  }

  #mark(line: number): void {
    const mark = this.#source[this.#at] ?? ''
    if (mark === "'" || mark === '"') throw new Error(`line ${line}: a string never ends`)
    this.#at += 1
    const depth = this.#templates.at(-1)
    if (mark === '`' || (mark === '}' && depth === 0)) {
      if (mark === '}') this.#templates.pop()
      this.#templatePiece(line)
      return
    }
    if (depth !== undefined && mark === '{') this.#templates[this.#templates.length - 1] = depth + 1
    if (depth !== undefined && mark === '}') this.#templates[this.#templates.length - 1] = depth - 1
    this.#push('mark', mark, line)
  }

  #templatePiece(line: number): void {
    const piece = this.#match(TEMPLATE_PIECE)
    if (piece === null) throw new Error(`line ${line}: a template never ends`)
    this.#push('template', piece[1] ?? '', line)
    if (piece[2] === '${') this.#templates.push(0)
  }

  #mayBeginRegex(): boolean {
    const before = this.#tokens.at(-1)
    if (before === undefined) return true
    if (before.kind === 'word') return BEFORE_REGEX.has(before.text)
    return before.kind === 'mark' && !')]}'.includes(before.text)
  }

  #push(kind: Token['kind'], text: string, line: number): void {
    this.#tokens.push({ kind, text, line })
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#source)
    if (found === null) return null
    this.#at = pattern.lastIndex
    for (const character of found[0]) if (character === '\n') this.#line += 1
    return found
  }
}
