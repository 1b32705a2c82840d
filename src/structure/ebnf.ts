/** Builds a grammar in the EBNF that xgrammar reads, rule by rule. Bodies are texts of EBNF. */

/** Most characters of all rules. A schema can ask for much more text than it has itself. */
const MOST_TEXT = 16 << 20;

export class Rules {
  readonly #bodies = new Map<string, string>();
  #characters = 0;

  /** Adds a rule of a new name. Returns the name. */
  add(body: string): string {
    const name = this.reserve();
    this.define(name, body);
    return name;
  }

  /** A new name, whose rule is defined later: it may refer to itself. */
  reserve(): string {
    const name = `r${this.#bodies.size}`;
    this.#bodies.set(name, '');
    return name;
  }

  /** Throws an Error where all rules together are too long. */
  define(name: string, body: string): void {
    this.#characters += name.length + body.length;
    if (this.#characters > MOST_TEXT) throw new Error(`its grammar has more than ${MOST_TEXT} characters`);
    this.#bodies.set(name, body);
  }

  /** The whole grammar, which begins with `body`. */
  text(body: string): string {
    const rules = [...this.#bodies].map(([name, own]) => `${name} ::= ${own}\n`);
    return `root ::= ${body}\n${BEYOND_ASCII} ::= ${BEYOND_BODY}\n${rules.join('')}`;
  }
}

/** An inclusive range of code points. */
export type CodeRange = readonly [from: number, to: number];

export function literal(text: string): string {
  return `"${Array.from(text, (character) => escaped(character.codePointAt(0)!)).join('')}"`;
}

/** One character of the ranges, which must be of ASCII: xgrammar takes classes for those of bytes. */
export function characters(ranges: readonly CodeRange[]): string {
  const inside = ranges.map(([from, to]) =>
    from === to ? escaped(from) : `${escaped(from)}-${escaped(to)}`,
  );
  return `[${inside.join('')}]`;
}

/** One character that no range has. The ranges must be of ASCII. */
export function charactersBut(ranges: readonly CodeRange[]): string {
  const ascii = without([[0, LAST_ASCII]], ranges);
  return ascii.length === 0 ? BEYOND_ASCII : `(${characters(ascii)} | ${BEYOND_ASCII})`;
}

/** The rule of characters that are not of ASCII, in bytes of UTF-8. */
const BEYOND_ASCII = 'beyond';
const NEXT = '[\\u0080-\\u00bf]';
const BEYOND_BODY = [
  `[\\u00c2-\\u00df] ${NEXT}`,
  `[\\u00e0] [\\u00a0-\\u00bf] ${NEXT}`,
  `[\\u00e1-\\u00ec\\u00ee\\u00ef] ${NEXT} ${NEXT}`,
  `[\\u00ed] [\\u0080-\\u009f] ${NEXT}`,
  `[\\u00f0] [\\u0090-\\u00bf] ${NEXT} ${NEXT}`,
  `[\\u00f1-\\u00f3] ${NEXT} ${NEXT} ${NEXT}`,
  `[\\u00f4] [\\u0080-\\u008f] ${NEXT} ${NEXT}`,
].join(' | ');

export const LAST_ASCII = 0x7f;
export const LAST_CODE = 0x10ffff;

export function without(ranges: readonly CodeRange[], removed: readonly CodeRange[]): CodeRange[] {
  const sorted = removed.toSorted(([a], [b]) => a - b);
  return ranges.flatMap(([first, last]) => {
    const left: CodeRange[] = [];
    let next = first;
    for (const [from, to] of sorted) {
      if (from > last) break;
      if (from > next) left.push([next, from - 1]);
      next = Math.max(next, to + 1);
    }
    if (next <= last) left.push([next, last]);
    return left;
  });
}

export function choice(bodies: readonly string[]): string {
  return bodies.length === 1
    ? bodies[0]!
    : `(${bodies.map((body) => (body === '' ? '""' : body)).join(' | ')})`;
}

/** `most` of null is any number. */
export function repeated(body: string, least: number, most: number | null): string {
  if (most === 0) return '""';
  if (least === 1 && most === 1) return body;
  return `(${body}){${least},${most ?? ''}}`;
}

/** Letters and digits stand for themselves. Other characters are numbers, whose digits are always four or eight. */
function escaped(code: number): string {
  const character = String.fromCodePoint(code);
  if (/[A-Za-z0-9 _.,:]/.test(character)) return character;
  const digits = code.toString(16);
  return code <= 0xffff ? `\\u${digits.padStart(4, '0')}` : `\\U${digits.padStart(8, '0')}`;
}
