/**
 * Texts of bounded length. The library computes the allowed tokens of each place in a grammar when it compiles it, and
 * each number of characters is a place. So a grammar for the tokens leaves the bounds of long texts out, and another
 * one for single bytes, which is small, has them: tokens that may exceed a bound are tried there.
 */
import { BYTE_CHARACTERS } from '../text/token-name.js';
import { CONTROL_MARK, type GrammarMatcher } from './grammar.js';

/** Bounds up to here are part of the grammar for the tokens. */
export const LONG_TEXT = 24;

/** Bytes that no text of UTF-8 has: each stands for a character of a long text, or is one too many. */
export const NO_TEXT = '[\\u00fe-\\u00ff]';
const PROBE = 0xff;
/** Most characters that are tried ahead of a token. */
const LOOK = 128;
/** Most tokens that the rest of a character takes, as an escape or in bytes. */
const MOST_PARTS = 6;

/** The tokens of bytes, and the end token. */
export const BYTE_VOCABULARY: readonly string[] = [...BYTE_CHARACTERS, ''];
export const BYTE_END = 256;

/** A matcher that can go back. */
export interface BytesMatcher extends GrammarMatcher {
  goBack(count: number): void;
}

/** Bytes before and after texts, in JSON and between tags. */
const ENDS = new Set(Buffer.from(`"<>\n${CONTROL_MARK}`));

/** Tokens by their bytes. */
export class TokenBytes {
  readonly bytes: readonly Uint8Array[];
  /** Ids in the order of their bytes. */
  readonly sorted: Int32Array;
  /** Those among them that may end a text, and begin a long one. */
  readonly ending: Int32Array;
  readonly longest: number;
  /** By the bytes that they exceed. */
  readonly #ends = new Map<number, ReadonlySet<number>>();

  /** `vocabulary` has a character for each byte. */
  constructor(vocabulary: readonly string[]) {
    const byteOf = new Map(BYTE_CHARACTERS.map((character, byte) => [character, byte]));
    this.bytes = vocabulary.map((token) => Uint8Array.from(token, (character) => byteOf.get(character)!));
    const ids = vocabulary.flatMap((token, id) => (token === '' ? [] : [id]));
    this.sorted = Int32Array.from(ids).sort((a, b) => Buffer.compare(this.bytes[a]!, this.bytes[b]!));
    this.ending = this.sorted.filter((id) => this.bytes[id]!.some((byte) => ENDS.has(byte)));
    this.longest = this.bytes.reduce((most, { length }) => Math.max(most, length), 0);
  }

  /** The tokens of more bytes that may end a text. All matchers share them. */
  endsAbove(bytes: number): ReadonlySet<number> {
    const known = this.#ends.get(bytes);
    if (known !== undefined) return known;
    const ends = new Set(this.ending.filter((id) => this.bytes[id]!.length > bytes));
    this.#ends.set(bytes, ends);
    return ends;
  }
}

/** Allows the tokens that the matcher of tokens and the one of bytes allow. */
export class LongTextMatcher implements GrammarMatcher {
  readonly #own: GrammarMatcher;
  readonly #exact: BytesMatcher;
  readonly #tokens: TokenBytes;
  /** Tokens that may end a text too early or too late, whatever precedes them. */
  readonly #ends: ReadonlySet<number>;
  readonly #alike: boolean;
  /** Bytes that no bound of the text excludes. */
  #free = Number.POSITIVE_INFINITY;
  /** Tokens since the last one that did not end within a character of a long text. */
  #parts = MOST_PARTS;

  /**
   * `least`: whether a text may have to become longer before it ends. `alike`: whether a text before decides what may
   * follow behind it.
   */
  constructor(
    own: GrammarMatcher,
    exact: BytesMatcher,
    tokens: TokenBytes,
    { least, alike }: { least: boolean; alike: boolean },
  ) {
    this.#own = own;
    this.#exact = exact;
    this.#tokens = tokens;
    const surest = least || alike ? 0 : LONG_TEXT;
    this.#ends = tokens.endsAbove(surest);
    this.#alike = alike;
  }

  get ended(): boolean {
    return this.#own.ended;
  }

  accept(token: number): boolean {
    const bytes = this.#tokens.bytes[token] ?? [];
    for (const byte of bytes) if (!this.#exact.accept(byte)) return false;
    this.#parts += 1;
    this.#free = this.#parts > MOST_PARTS ? Number.POSITIVE_INFINITY : Math.max(0, this.#free - bytes.length);
    return this.#own.accept(token);
  }

  async allowed(): Promise<Int32Array> {
    const allowed = await this.#own.allowed();
    const more = this.#followers();
    if (more > 0) {
      this.#parts = 0;
      this.#free = more - 1;
    } else if (this.#alike) this.#free = 0;
    const { bytes, sorted, ending, longest } = this.#tokens;
    const others = this.#free < longest ? sorted : ending;
    const open = others.filter(
      (id) => (allowed[id >> 5]! >> (id & 31)) & 1 && (bytes[id]!.length > this.#free || this.#ends.has(id)),
    );
    this.#check(open, allowed);
    return allowed;
  }

  close(): void {
    this.#own.close();
    this.#exact.close();
  }

  /** How many characters may follow in a long text, and one too many. */
  #followers(): number {
    let count = 0;
    while (count <= LOOK && this.#exact.accept(PROBE)) count += 1;
    if (count > 0) this.#exact.goBack(count);
    return count;
  }

  /** Removes the tokens that the exact grammar does not allow. `ids` are in the order of their bytes. */
  #check(ids: Int32Array, allowed: Int32Array): void {
    let before: Uint8Array = new Uint8Array();
    /** Bytes of the token before that were taken. */
    let taken = 0;
    for (const id of ids) {
      const bytes = this.#tokens.bytes[id]!;
      let same = 0;
      while (same < before.length && same < bytes.length && bytes[same] === before[same]) same += 1;
      const refused = taken < before.length && same > taken;
      if (!refused) {
        if (taken > same) this.#exact.goBack(taken - same);
        taken = Math.min(taken, same);
        while (taken < bytes.length && this.#exact.accept(bytes[taken]!)) taken += 1;
        before = bytes;
      }
      if (taken < bytes.length) allowed[id >> 5]! &= ~(1 << (id & 31));
    }
    if (taken > 0) this.#exact.goBack(taken);
  }
}
