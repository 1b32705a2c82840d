/** A trie over the characters of pieces, in flat arrays: an open-addressed table from (node, character) to node. */

export const NO_NODE = -1;

export class PieceTrie {
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
