/**
 * Merges the characters of a word by byte-pair encoding: again and again the pair with the lowest rank, the leftmost
 * of equal ones. It returns what the library returns; the library compares and joins texts, this compares numbers.
 */

/** A symbol that no merge has. */
const OTHER = -1;
const NONE = -1;
/** A heap key is rank × PLACES + place, which a double holds exactly. */
const PLACES = 2 ** 28;

export class BytePair {
  /** Text of each symbol. */
  readonly #texts: string[] = [];
  readonly #symbols = new Map<string, number>();
  /** Symbols of single UTF-16 units, by the unit. */
  readonly #ofUnit = new Int32Array(1 << 16).fill(OTHER);
  readonly #pairs: PairTable;
  /** By rank: the symbol that the pair becomes. */
  readonly #merged: Int32Array;

  /** Before the texts of all characters but the first. */
  readonly #prefix: string;

  /** `merges` are pairs of texts in the order of their ranks. */
  constructor(merges: readonly (readonly string[])[], prefix = '') {
    this.#prefix = prefix;
    this.#pairs = new PairTable(merges.length);
    this.#merged = new Int32Array(merges.length);
    for (const [rank, pair] of merges.entries()) {
      if (pair.length !== 2) continue;
      const [left, right] = pair as [string, string];
      this.#pairs.set(this.#symbol(left), this.#symbol(right), rank);
      this.#merged[rank] = this.#symbol(left + right.slice(prefix.length));
    }
    for (const [text, symbol] of this.#symbols) {
      if (text.length === 1) this.#ofUnit[text.charCodeAt(0)] = symbol;
    }
  }

  /** The texts that remain of the word's characters when no pair can be merged. The last one ends with `wordEnd`. */
  merge(word: string, wordEnd: string): string[] {
    // Of each character: where it begins in the word. Then where the word ends.
    const begins = new Int32Array(word.length + 1);
    let count = 0;
    for (let at = 0; at < word.length; count += 1) {
      begins[count] = at;
      at += word.codePointAt(at)! > 0xffff ? 2 : 1;
    }
    begins[count] = word.length;
    const textAt = (place: number) =>
      (place > 0 ? this.#prefix : '') +
      word.slice(begins[place], begins[place + 1]) +
      (place + 1 < count ? '' : wordEnd);
    if (count === 1) return [textAt(0)];
    const symbols = new Int32Array(count);
    const after = new Int32Array(count);
    const before = new Int32Array(count);
    for (let place = 0; place < count; place += 1) {
      const bare = (place === 0 || this.#prefix === '') && (place + 1 < count || wordEnd === '');
      const whole = bare && begins[place + 1]! - begins[place]! === 1;
      symbols[place] = whole
        ? this.#ofUnit[word.charCodeAt(begins[place]!)]!
        : (this.#symbols.get(textAt(place)) ?? OTHER);
      after[place] = place + 1 < count ? place + 1 : NONE;
      before[place] = place - 1;
    }
    const heap = new Heap();
    const consider = (place: number) => {
      const rank = this.#rank(symbols, place, after[place]!);
      if (rank !== NONE) heap.push(rank * PLACES + place);
    };
    for (let place = 0; place + 1 < count; place += 1) {
      consider(place);
    }
    while (heap.size > 0) {
      const key = heap.pop();
      const place = key % PLACES;
      const rank = (key - place) / PLACES;
      // The pair has changed since it was pushed, or one of its symbols was merged into the one before.
      if (this.#rank(symbols, place, after[place]!) !== rank) continue;
      const gone = after[place]!;
      symbols[place] = this.#merged[rank]!;
      symbols[gone] = OTHER;
      const next = after[gone]!;
      after[place] = next;
      after[gone] = NONE;
      if (next !== NONE) before[next] = place;
      if (before[place] !== NONE) consider(before[place]!);
      consider(place);
    }
    const texts: string[] = [];
    for (let place = count > 0 ? 0 : NONE; place !== NONE; place = after[place]!) {
      texts.push(symbols[place] === OTHER ? textAt(place) : this.#texts[symbols[place]!]!);
    }
    return texts;
  }

  #rank(symbols: Int32Array, place: number, next: number): number {
    if (next === NONE) return NONE;
    const left = symbols[place]!;
    const right = symbols[next]!;
    return left === OTHER || right === OTHER ? NONE : this.#pairs.get(left, right);
  }

  #symbol(text: string): number {
    const known = this.#symbols.get(text);
    if (known !== undefined) return known;
    this.#symbols.set(text, this.#texts.length);
    return this.#texts.push(text) - 1;
  }
}

/** An open-addressed table from pairs of symbols to ranks. */
class PairTable {
  readonly #mask: number;
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #rank: Int32Array;

  constructor(pairs: number) {
    const slots = 2 ** Math.ceil(Math.log2(2 * pairs + 2));
    this.#mask = slots - 1;
    this.#left = new Int32Array(slots);
    this.#right = new Int32Array(slots);
    this.#rank = new Int32Array(slots).fill(NONE);
  }

  get(left: number, right: number): number {
    return this.#rank[this.#slot(left, right)]!;
  }

  set(left: number, right: number, rank: number): void {
    const slot = this.#slot(left, right);
    this.#left[slot] = left;
    this.#right[slot] = right;
    this.#rank[slot] = rank;
  }

  #slot(left: number, right: number): number {
    let slot = (Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b)) >>> 0;
    slot = (slot ^ (slot >>> 15)) & this.#mask;
    while (this.#rank[slot] !== NONE && (this.#left[slot] !== left || this.#right[slot] !== right)) {
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}

/** A binary heap of numbers, the smallest first. */
class Heap {
  readonly #keys: number[] = [];

  get size(): number {
    return this.#keys.length;
  }

  push(key: number): void {
    const keys = this.#keys;
    let at = keys.push(key) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (keys[parent]! <= key) break;
      keys[at] = keys[parent]!;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number {
    const keys = this.#keys;
    const top = keys[0]!;
    const key = keys.pop()!;
    const size = keys.length;
    if (size === 0) return top;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && keys[child + 1]! < keys[child]!) child += 1;
      if (keys[child]! >= key) break;
      keys[at] = keys[child]!;
      at = child;
    }
    keys[at] = key;
    return top;
  }
}
