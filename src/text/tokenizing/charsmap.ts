/**
 * SentencePiece's table of normalized characters. Its bytes: u32, the bytes of a trie; the trie, a double array of u32
 * over the bytes of UTF-8; texts, each ended by a zero, at the places that the trie's leaves name.
 */

/** In a unit of the trie: that the prefix up to here is replaced. */
const HAS_LEAF = 1 << 8;
/** That the offset counts in units of 256. */
const FAR = 1 << 9;
const LEAF = 0x8000_0000;

export class Charsmap {
  readonly #units: Uint32Array;
  readonly #texts: Buffer;
  /** By the place of their first byte. */
  readonly #replacements = new Map<number, string>();

  /** Throws for a table that is cut off. */
  constructor(table: Buffer) {
    const bytes = table.length < 4 ? 0 : table.readUInt32LE(0);
    if (bytes === 0 || bytes % 4 !== 0 || 4 + bytes >= table.length || table.at(-1) !== 0) {
      throw new Error(
        `its precompiled_charsmap has ${table.length} bytes, of which a trie would take ${bytes}`,
      );
    }
    this.#units = Uint32Array.from({ length: bytes / 4 }, (_, at) => table.readUInt32LE(4 + 4 * at));
    this.#texts = table.subarray(4 + bytes);
  }

  /** The text with each longest prefix that the table has, from left to right, replaced. */
  normalize(text: string): string {
    const bytes = Buffer.from(text);
    let normalized = '';
    let kept = 0;
    for (let at = 0; at < bytes.length; ) {
      const { length, leaf } = this.#longest(bytes, at);
      if (length === 0) {
        at += 1;
        while (at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at += 1;
        continue;
      }
      normalized += bytes.toString('utf8', kept, at) + this.#replacement(leaf);
      at += length;
      kept = at;
    }
    return kept === 0 ? text : normalized + bytes.toString('utf8', kept);
  }

  /** Bytes of the longest prefix at `at`, 0 for none, and the place of what replaces it. */
  #longest(bytes: Buffer, at: number): { length: number; leaf: number } {
    const units = this.#units;
    const found = { length: 0, leaf: 0 };
    let node = offsetOf(units[0]!);
    for (let end = at; end < bytes.length; end += 1) {
      const byte = bytes[end]!;
      node ^= byte;
      const unit = units[node];
      if (byte === 0 || unit === undefined || (unit & (LEAF | 0xff)) >>> 0 !== byte) break;
      node ^= offsetOf(unit);
      if ((unit & HAS_LEAF) === 0) continue;
      found.length = end + 1 - at;
      found.leaf = (units[node] ?? 0) & ~LEAF;
    }
    return found;
  }

  #replacement(place: number): string {
    const known = this.#replacements.get(place);
    if (known !== undefined) return known;
    const text = this.#texts.toString('utf8', place, this.#texts.indexOf(0, place));
    this.#replacements.set(place, text);
    return text;
  }
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & FAR) >>> 6);
}
