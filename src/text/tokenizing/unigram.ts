/**
 * Splits text into the pieces of a Unigram model with the highest summed score (Viterbi). It returns what the
 * library's lattice returns, with the same ties and rounding. The lattice holds objects; this holds numbers.
 */
import { NO_NODE, PieceTrie } from './piece-trie.js';

export interface UnigramPieces {
  texts: readonly string[];
  /** Score of each piece. */
  scores: Float64Array;
  /** Score of a character that is no piece. */
  unknownScore: number;
}

/** Stands for a piece that is one unknown character. */
const UNKNOWN = -1;
const NONE = -1;
/** More nodes than this are not kept for the next text. */
const KEPT_NODES = 1 << 18;

export class Unigram {
  readonly #pieces: UnigramPieces;
  readonly #trie: PieceTrie;
  #kept: Nodes | undefined;

  /** A pause may call `split` for another text. */
  constructor(pieces: UnigramPieces) {
    this.#pieces = pieces;
    this.#trie = new PieceTrie(pieces.texts);
  }

  /** The pieces in order. A character that is no piece stands alone. */
  split(text: string): string[] {
    const characters = codePoints(text);
    const nodes = this.#kept ?? new Nodes(1 << 12);
    this.#kept = undefined;
    nodes.clear(characters.length);
    for (let at = 0; at < characters.length; at += 1) {
      this.#begin(at, characters, nodes);
    }
    const path: string[] = [];
    let node = characters.length === 0 ? NONE : nodes.best(characters.length, 0);
    for (; node !== NONE; node = nodes.before[node]!) {
      const piece = nodes.piece[node]!;
      path.push(
        piece === UNKNOWN
          ? String.fromCodePoint(characters[nodes.begin[node]!]!)
          : this.#pieces.texts[piece]!,
      );
    }
    if (nodes.capacity <= KEPT_NODES) this.#kept = nodes;
    return path.reverse();
  }

  /** Adds a node for each piece that begins at the position. */
  #begin(at: number, characters: Uint32Array, nodes: Nodes): void {
    const { scores, unknownScore } = this.#pieces;
    let single = false;
    let branch = 0;
    for (let end = at + 1; end <= characters.length; end += 1) {
      branch = this.#trie.step(branch, characters[end - 1]!);
      if (branch === NO_NODE) break;
      const piece = this.#trie.pieceAt(branch);
      if (piece === NONE) continue;
      nodes.add(at, end, piece, scores[piece]!);
      if (end === at + 1) single = true;
    }
    if (!single) nodes.add(at, at + 1, UNKNOWN, unknownScore);
  }
}

/** Pieces at their places in the text, each with the best path of pieces that leads to it. */
class Nodes {
  begin: Int32Array;
  piece: Int32Array;
  /** The node before this one on its best path, or -1. */
  before: Int32Array;
  /** Score of the best path, this node included. */
  #score: Float64Array;
  /** The next node with the same end. */
  #next: Int32Array;
  #count = 0;
  /** By position: the nodes that end there, in the order in which they were added. */
  #first = new Int32Array(0);
  #last = new Int32Array(0);

  constructor(capacity: number) {
    this.begin = new Int32Array(capacity);
    this.piece = new Int32Array(capacity);
    this.before = new Int32Array(capacity);
    this.#score = new Float64Array(capacity);
    this.#next = new Int32Array(capacity);
  }

  get capacity(): number {
    return this.begin.length;
  }

  clear(characters: number): void {
    this.#count = 0;
    this.#first = new Int32Array(characters + 1).fill(NONE);
    this.#last = new Int32Array(characters + 1);
  }

  /** The node before `position` from which a piece with `score` gives the best path; the earliest of equal ones. */
  best(position: number, score: number): number {
    let best = this.#first[position]!;
    // Compare sums, not what precedes the piece: two of them can round to the same sum.
    for (let node = this.#next[best]!; node !== NONE; node = this.#next[node]!) {
      if (this.#score[node]! + score > this.#score[best]! + score) best = node;
    }
    return best;
  }

  add(begin: number, end: number, piece: number, score: number): void {
    if (this.#count === this.capacity) this.#grow();
    const node = this.#count++;
    const before = begin === 0 ? NONE : this.best(begin, score);
    this.begin[node] = begin;
    this.piece[node] = piece;
    this.before[node] = before;
    this.#score[node] = (before === NONE ? 0 : this.#score[before]!) + score;
    this.#next[node] = NONE;
    if (this.#first[end] === NONE) this.#first[end] = node;
    else this.#next[this.#last[end]!] = node;
    this.#last[end] = node;
  }

  #grow(): void {
    const { begin, piece, before } = this;
    const score = this.#score;
    const next = this.#next;
    const capacity = 2 * this.capacity;
    this.begin = new Int32Array(capacity);
    this.piece = new Int32Array(capacity);
    this.before = new Int32Array(capacity);
    this.#score = new Float64Array(capacity);
    this.#next = new Int32Array(capacity);
    this.begin.set(begin);
    this.piece.set(piece);
    this.before.set(before);
    this.#score.set(score);
    this.#next.set(next);
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
