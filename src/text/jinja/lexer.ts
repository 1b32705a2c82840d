/** Splits a template into tokens, with the white space rules that transformers sets: trim_blocks and lstrip_blocks. */
import { SPACE } from './text-methods.js';

export interface Token {
  type: 'text' | 'block' | 'print' | 'name' | 'string' | 'int' | 'float' | 'operator' | 'end';
  /** Of `block` and `print`, `{` begins and `}` ends it. */
  text: string;
  line: number;
}

const OPENING = /\{([%{#])([-+]?)/g;
const RAW = new RegExp(`\\{%[-+]?[${SPACE}]*raw[${SPACE}]*(?:-%\\}[${SPACE}]*|%\\})`, 'y');
const END_RAW = new RegExp(
  `\\{%([-+]?)[${SPACE}]*endraw[${SPACE}]*(?:\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?)`,
  'g',
);
const END_COMMENT = new RegExp(`\\+#\\}|-#\\}[${SPACE}]*|#\\}\\n?`, 'g');
const END_BLOCK = new RegExp(`\\+%\\}|-%\\}[${SPACE}]*|%\\}\\n?`, 'y');
const END_PRINT = new RegExp(`-\\}\\}[${SPACE}]*|\\}\\}`, 'y');
const SPACES = new RegExp(`[${SPACE}]+`, 'y');
const LAST_SPACES = new RegExp(`[${SPACE}]+$`);
const ONLY_SPACES = new RegExp(`^[${SPACE}]+$`);

const LEXEMES: readonly [Token['type'], RegExp][] = [
  ['float', /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy],
  ['int', /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy],
  ['name', /[\p{ID_Start}_]\p{ID_Continue}*/uy],
  ['string', /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy],
  ['operator', /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}><=.:|,;]/y],
];

const CLOSING: Record<string, string> = { '(': ')', '[': ']', '{': '}' };

/** Throws an Error that names the line. */
export function tokensOf(template: string): Token[] {
  return new Lexer(template.replace(/\r\n?/g, '\n').replace(/\n$/, '')).read();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  /** Up to where lines are counted. */
  #counted = 0;
  /** Whether what follows begins a line. */
  #lineStarts = true;

  constructor(source: string) {
    this.#source = source;
  }

  read(): Token[] {
    while (this.#at < this.#source.length) {
      const opening = this.#find(OPENING);
      if (opening === undefined) {
        this.#push('text', this.#source.slice(this.#at));
        break;
      }
      const [, kind, sign] = opening;
      this.#text(this.#source.slice(this.#at, opening.index), sign!, kind !== '{');
      this.#at = opening.index;
      const raw = kind === '%' ? this.#match(RAW) : undefined;
      if (raw !== undefined) this.#raw(raw);
      else if (kind === '#') this.#comment();
      else {
        this.#at += opening[0].length;
        this.#inside(kind === '%' ? 'block' : 'print');
      }
    }
    this.#push('end', '');
    return this.#tokens;
  }

  /** The text before an opening; `strips` if white space before it on its line is not part of the text. */
  #text(given: string, sign: string, strips: boolean): void {
    let text = given;
    if (sign === '-') text = text.replace(LAST_SPACES, '');
    else if (sign !== '+' && strips) {
      const lineStart = text.lastIndexOf('\n') + 1;
      if ((lineStart > 0 || this.#lineStarts) && ONLY_SPACES.test(text.slice(lineStart)))
        text = text.slice(0, lineStart);
    }
    if (text !== '') this.#push('text', text);
    this.#lineStarts = false;
  }

  #raw(opening: string): void {
    this.#at += opening.length;
    const end = this.#find(END_RAW);
    if (end === undefined) throw this.#fault('Missing end of raw directive');
    this.#lineStarts = opening.endsWith('\n');
    this.#text(this.#source.slice(this.#at, end.index), end[1]!, true);
    this.#pass(end);
  }

  #comment(): void {
    this.#at += 2;
    const end = this.#find(END_COMMENT);
    if (end === undefined) throw this.#fault('Missing end of comment tag');
    this.#pass(end);
  }

  #inside(type: 'block' | 'print'): void {
    this.#push(type, '{');
    const open: string[] = [];
    for (;;) {
      const end = open.length === 0 ? this.#match(type === 'block' ? END_BLOCK : END_PRINT) : undefined;
      if (end !== undefined) {
        this.#push(type, '}');
        this.#at += end.length;
        this.#lineStarts = end.endsWith('\n');
        return;
      }
      this.#at += this.#match(SPACES)?.length ?? 0;
      if (open.length === 0 && this.#match(type === 'block' ? END_BLOCK : END_PRINT) !== undefined) continue;
      this.#lexeme(open);
    }
  }

  #lexeme(open: string[]): void {
    for (const [type, pattern] of LEXEMES) {
      const text = this.#match(pattern);
      if (text === undefined) continue;
      this.#push(type, type === 'string' ? unescaped(text.slice(1, -1)) : text);
      this.#at += text.length;
      if (type === 'operator' && CLOSING[text] !== undefined) open.push(CLOSING[text]);
      else if (type === 'operator' && /^[)\]}]$/.test(text) && open.pop() !== text)
        throw this.#fault(`unexpected '${text}'`);
      return;
    }
    const next = this.#source[this.#at];
    throw this.#fault(next === undefined ? 'unexpected end of template' : `unexpected char '${next}'`);
  }

  #find(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source) ?? undefined;
  }

  #match(pattern: RegExp): string | undefined {
    return this.#find(pattern)?.[0];
  }

  #pass({ 0: text, index }: RegExpExecArray): void {
    this.#at = index + text.length;
    this.#lineStarts = text.endsWith('\n');
  }

  #push(type: Token['type'], text: string): void {
    this.#tokens.push({ type, text, line: this.#countedLine() });
  }

  #countedLine(): number {
    this.#line += this.#source.slice(this.#counted, this.#at).split('\n').length - 1;
    this.#counted = this.#at;
    return this.#line;
  }

  #fault(message: string): Error {
    return new SyntaxError(`${message} (line ${this.#countedLine()})`);
  }
}

const ESCAPES: Record<string, string> = {
  ...{ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', a: '\x07' },
  ...{ '\\': '\\', "'": "'", '"': '"', '\n': '' },
};
const ESCAPE = /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|([\s\S]))/g;

/** Escapes that Python does not know stay as they are. */
function unescaped(text: string): string {
  return text.replace(ESCAPE, (whole, x, u, long, octal, other) => {
    if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
    if (other !== undefined) return ESCAPES[other] ?? whole;
    return String.fromCodePoint(Number.parseInt(x ?? u ?? long, 16));
  });
}
