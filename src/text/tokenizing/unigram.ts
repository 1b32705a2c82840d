/** Splits text into the pieces of a Unigram model with the highest summed score (Viterbi), which are the library's. */

export interface UnigramPieces {
  texts: readonly string[];
  /** Score of each piece. */
  scores: Float64Array;
  /** Score of a character that is no piece. */
  unknownScore: number;
}

/** Stands for a piece that is one unknown character. */
const UNKNOWN = -1;

export class Unigram {
  readonly #pieces: UnigramPieces;
  readonly #trie: PieceTrie;

  constructor(pieces: UnigramPieces) {
    this.#pieces = pieces;
    this.#trie = new PieceTrie(pieces.texts);
  }

  /** The pieces in order. A character that is no piece stands alone. */
  split(text: string): string[] {
    const { texts, scores, unknownScore } = this.#pieces;
    const characters = codePoints(text);
    const count = characters.length;
    // By position: the score of the best path that ends there, and where and with which piece its last step begins.
    const best = new Float64Array(count + 1).fill(Number.NEGATIVE_INFINITY);
    const begins = new Int32Array(count + 1);
    const pieces = new Int32Array(count + 1);
    best[0] = 0;
    const reach = (begin: number, end: number, piece: number, score: number) => {
      // Of equal paths, the one whose last piece is longest.
      if (!(best[begin]! + score > best[end]!)) return;
      best[end] = best[begin]! + score;
      begins[end] = begin;
      pieces[end] = piece;
    };
    for (let at = 0; at < count; at += 1) {
      let single = false;
      let branch = 0;
      for (let end = at + 1; end <= count; end += 1) {
        branch = this.#trie.step(branch, characters[end - 1]!);
        if (branch === NO_NODE) break;
        const piece = this.#trie.pieceAt(branch);
        if (piece < 0) continue;
        reach(at, end, piece, scores[piece]!);
        if (end === at + 1) single = true;
      }
      if (!single) reach(at, at + 1, UNKNOWN, unknownScore);
    }
    const path: string[] = [];
    for (let end = count; end > 0; end = begins[end]!) {
      const piece = pieces[end]!;
      path.push(piece === UNKNOWN ? String.fromCodePoint(characters[begins[end]!]!) : texts[piece]!);
    }
    return path.reverse();
  }
}

const NO_NODE = -1;

/** A trie over the characters of pieces, in flat arrays: an open-addressed table from (node, character) to node. */
class PieceTrie {
  readonly #mask: number;
  /** Key and value of each slot; a slot without a value is free. */
  readonly #parent: Int32Array;
  readonly #character: Uint32Array;
  readonly #child: Int32Array;
  /** Piece that ends at each node, or -1. */
  readonly #piece: Int32Array;
  #nodes = 1;

  constructor(pieces: readonly string[]) {
    const characters = pieces.reduce((sum, piece) => sum + piece.length, 1);
    const slots = 2 ** Math.ceil(Math.log2(2 * characters));
    this.#mask = slots - 1;
    this.#parent = new Int32Array(slots);
    this.#character = new Uint32Array(slots);
    this.#child = new Int32Array(slots).fill(NO_NODE);
    this.#piece = new Int32Array(characters).fill(-1);
    for (const [index, piece] of pieces.entries()) this.#insert(piece, index);
  }

  /** The node that `character` leads to from `node` (0 is the root), or NO_NODE. */
  step(node: number, character: number): number {
    return this.#child[this.#slot(node, character)]!;
  }

  /** Index of the piece that ends at the node, or -1. Of equal pieces it is the last. */
  pieceAt(node: number): number {
    return this.#piece[node]!;
  }

  #insert(text: string, piece: number): void {
    let node = 0;
    for (const symbol of text) {
      const character = symbol.codePointAt(0)!;
      const slot = this.#slot(node, character);
      if (this.#child[slot] === NO_NODE) {
        this.#parent[slot] = node;
        this.#character[slot] = character;
        this.#child[slot] = this.#nodes++;
      }
      node = this.#child[slot]!;
    }
    this.#piece[node] = piece;
  }

  #slot(node: number, character: number): number {
    let slot = (Math.imul(node, 0x9e3779b1) ^ Math.imul(character, 0x85ebca6b)) >>> 0;
    slot = (slot ^ (slot >>> 15)) & this.#mask;
    while (
      this.#child[slot] !== NO_NODE &&
      (this.#parent[slot] !== node || this.#character[slot] !== character)
    ) {
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}

function codePoints(text: string): Uint32Array {
  const points = new Uint32Array(text.length);
  let count = 0;
  for (let at = 0; at < text.length; at += 1) {
    const point = text.codePointAt(at)!;
    if (point > 0xffff) at += 1;
    points[count++] = point;
  }
  return points.subarray(0, count);
}
