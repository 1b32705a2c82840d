/**
 * Regular expressions of JSON schemas as EBNF of the strings that match. What needs more than a grammar is refused:
 * look-around, back references, and classes by Unicode's properties.
 */
import { type CodeRange, choice, repeated } from './ebnf.js';
import { CHARACTER, inverted, stringCharacter } from './string-rules.js';

/** Most repetitions that a quantifier may name. */
const MOST_REPEATS = 1_000;
/** Of one class of characters. More would take the reader too long. */
const MOST_RANGES = 256;
/** Repetitions without an end, each of which every step may have to follow. */
const MOST_UNBOUNDED = 64;
const DEPTH = 16;

/** Of ASCII: what JavaScript adds to them beyond it is not followed. */
const CLASSES: Record<string, CodeRange[]> = {
  d: [[48, 57]],
  w: [
    [48, 57],
    [65, 90],
    [95, 95],
    [97, 122],
  ],
  s: [
    [9, 13],
    [32, 32],
  ],
};
const ESCAPES: Record<string, number> = { n: 10, r: 13, t: 9, f: 12, v: 11, '0': 0 };
const LINE_ENDS: CodeRange[] = [
  [10, 10],
  [13, 13],
];
const NO_LINE_ENDS = inverted(LINE_ENDS);

/** The body of a rule for the contents of matching strings. Throws an Error with the reason. */
export function patternRule(pattern: string): string {
  // JavaScript's own parser finds what is no expression at all.
  new RegExp(pattern, 'u');
  return new PatternReader(pattern).read();
}

class PatternReader {
  readonly #text: readonly string[];
  /** Bodies of single characters and classes, by how the pattern writes them. */
  readonly #known = new Map<string, string>();
  #at = 0;
  #depth = 0;
  #unbounded = 0;

  constructor(pattern: string) {
    this.#text = Array.from(pattern);
  }

  /** A branch without an anchor may begin or end anywhere. */
  read(): string {
    const branches: string[] = [];
    do {
      const begins = this.#take('^');
      const own = this.#sequence();
      const ends = this.#take('$');
      const any = `${CHARACTER}*`;
      branches.push([...(begins ? [] : [any]), own, ...(ends ? [] : [any])].join(' '));
    } while (this.#take('|'));
    if (this.#at < this.#text.length) throw new Error(`"${this.#next}" cannot stand inside of a pattern`);
    return choice(branches);
  }

  get #next(): string | undefined {
    return this.#text[this.#at];
  }

  #take(character: string): boolean {
    if (this.#next !== character) return false;
    this.#at += 1;
    return true;
  }

  #sequence(): string {
    const parts: string[] = [];
    while (this.#next !== undefined && !'|)$^'.includes(this.#next))
      parts.push(this.#quantified(this.#atom()));
    return parts.length === 0 ? '""' : parts.join(' ');
  }

  #atom(): string {
    const begin = this.#at;
    const character = this.#text[this.#at++]!;
    if (character === '(') return this.#group();
    const ranges = this.#ranges(character);
    const written = this.#text.slice(begin, this.#at).join('');
    const body = this.#known.get(written) ?? stringCharacter(ranges);
    this.#known.set(written, body);
    return body;
  }

  #ranges(character: string): readonly CodeRange[] {
    if (character === '[') return this.#set();
    if (character === '.') return NO_LINE_ENDS;
    return character === '\\' ? this.#escape() : [codeRange(character)];
  }

  #group(): string {
    this.#depth += 1;
    if (this.#depth > DEPTH) throw new Error(`it is nested deeper than ${DEPTH} levels`);
    if (this.#take('?') && !this.#take(':'))
      throw new Error('look-around and named groups cannot be followed');
    const branches: string[] = [];
    do branches.push(this.#sequence());
    while (this.#take('|'));
    if (!this.#take(')')) throw new Error(`"${this.#next}" cannot stand inside of a pattern`);
    this.#depth -= 1;
    return `(${branches.join(' | ')})`;
  }

  #quantified(body: string): string {
    const bounds = this.#quantifier();
    // A reluctant quantifier matches the same strings.
    if (bounds !== undefined) this.#take('?');
    if (bounds?.[1] === null && ++this.#unbounded > MOST_UNBOUNDED)
      throw new Error(`it has more than ${MOST_UNBOUNDED} repetitions without an end`);
    return bounds === undefined ? body : repeated(body, ...bounds);
  }

  #quantifier(): [number, number | null] | undefined {
    if (this.#take('*')) return [0, null];
    if (this.#take('+')) return [1, null];
    if (this.#take('?')) return [0, 1];
    if (!this.#take('{')) return undefined;
    const end = this.#text.indexOf('}', this.#at);
    const [least, most] = this.#text.slice(this.#at, end).join('').split(',');
    this.#at = end + 1;
    const bounds: [number, number | null] = [
      Number(least),
      most === undefined ? Number(least) : most === '' ? null : Number(most),
    ];
    const large = bounds.find((count) => count !== null && count > MOST_REPEATS);
    if (large != null) throw new Error(`${large} repetitions are more than the limit of ${MOST_REPEATS}`);
    return bounds;
  }

  #set(): CodeRange[] {
    const negated = this.#take('^');
    const ranges: CodeRange[] = [];
    while (!this.#take(']')) {
      const from = this.#member();
      if (ranges.length > MOST_RANGES) throw new Error(`a class has more than ${MOST_RANGES} ranges`);
      if (from.length !== 1 || this.#next !== '-' || this.#text[this.#at + 1] === ']') {
        ranges.push(...from);
        continue;
      }
      this.#at += 1;
      ranges.push([from[0]![0], this.#member()[0]![1]]);
    }
    return negated ? inverted(ranges) : ranges;
  }

  #member(): CodeRange[] {
    const character = this.#text[this.#at++]!;
    return character === '\\' ? this.#escape() : [codeRange(character)];
  }

  #escape(): CodeRange[] {
    const character = this.#text[this.#at++]!;
    const known = CLASSES[character.toLowerCase()];
    if (known !== undefined) return character === character.toLowerCase() ? known : inverted(known);
    const code = ESCAPES[character];
    if (code !== undefined) return [[code, code]];
    if (character === 'x') return this.#numbered(2);
    if (character === 'u' && this.#next !== '{') return this.#numbered(4);
    if (/[A-Za-z0-9]/.test(character)) throw new Error(`"\\${character}" cannot be followed`);
    return [codeRange(character)];
  }

  #numbered(digits: number): CodeRange[] {
    const code = Number.parseInt(this.#text.slice(this.#at, this.#at + digits).join(''), 16);
    this.#at += digits;
    return [[code, code]];
  }
}

function codeRange(character: string): CodeRange {
  const code = character.codePointAt(0)!;
  return [code, code];
}
