/**
 * Puts a mark into the texts of a conversation where they look like control tokens. The mark stays there while a
 * template renders the texts, so that only tokens of the template itself are whole.
 */

/** Finds what looks like a token in a text. Tokens have two characters or more. */
export class Lookalikes {
  readonly #whole: RegExp | undefined;
  /** Beginnings of tokens that end a text, and ends of tokens that begin one: two texts may meet in a token. */
  readonly #beginnings = new Set<string>();
  readonly #ends = new Set<string>();
  readonly #longest: number;

  constructor(tokens: Iterable<string>) {
    // The longest first: one may be the beginning of another.
    const sorted = [...tokens].sort((a, b) => b.length - a.length);
    this.#longest = sorted[0]?.length ?? 0;
    this.#whole = sorted.length === 0 ? undefined : new RegExp(sorted.map(escaped).join('|'), 'g');
    for (const token of sorted) {
      for (let at = 1; at < token.length; at += 1) {
        this.#beginnings.add(token.slice(0, at));
        this.#ends.add(token.slice(at));
      }
    }
  }

  /** Returns the text with a mark in each lookalike, and at an end where a part of a token is. */
  marked(text: string, mark: string): string {
    if (this.#whole === undefined) return text;
    let inside = text;
    // Two lookalikes may overlap.
    while (inside.search(this.#whole) >= 0)
      inside = inside.replace(this.#whole, (token) => token.slice(0, 1) + mark + token.slice(1));
    const begins = this.#hasPart(inside, (length) => this.#ends.has(inside.slice(0, length)));
    const ends = this.#hasPart(inside, (length) => this.#beginnings.has(inside.slice(-length)));
    return `${begins ? mark : ''}${inside}${ends ? mark : ''}`;
  }

  #hasPart({ length: whole }: string, found: (length: number) => boolean): boolean {
    for (let length = Math.min(this.#longest - 1, whole); length > 0; length -= 1) {
      if (found(length)) return true;
    }
    return false;
  }
}

/** Marks the texts and the keys of a JSON value. */
export function markedValue(value: unknown, lookalikes: Lookalikes, mark: string): unknown {
  if (typeof value === 'string') return lookalikes.marked(value, mark);
  if (Array.isArray(value)) return value.map((each) => markedValue(each, lookalikes, mark));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, each]) => {
    return [lookalikes.marked(key, mark), markedValue(each, lookalikes, mark)] as const;
  });
  return Object.fromEntries(entries);
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

const FIRST_MARK = 0xe000;
const LAST_MARK = 0xf8ff;

/** A private character that is in none of the texts. Reads each of them once, however many such characters it has. */
export function unusedMark(texts: readonly string[]): string | undefined {
  const used = new Uint8Array(LAST_MARK - FIRST_MARK + 1);
  for (const text of texts) {
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code >= FIRST_MARK && code <= LAST_MARK) used[code - FIRST_MARK] = 1;
    }
  }
  const free = used.indexOf(0);
  return free < 0 ? undefined : String.fromCharCode(FIRST_MARK + free);
}
