/**
 * Merges of a BPE vocabulary that has scores: SentencePiece joins the two tokens whose joint text has the highest
 * score. The order among merges with the same joint text is that of Hugging Face's converter.
 */
import type { Metadata } from './metadata.js';
import { named, TOKEN_TYPE, type Vocabulary } from './vocabulary.js';

/** Finding the merges of a token takes time that grows with the square of its length. */
const MOST_CHARACTERS = 512;

/**
 * Characters of all merges together, which tokenizer.json has three times, and the sum of the squares of the tokens'
 * lengths. Real vocabularies have a few million of each.
 */
const MOST_MERGED = 16 << 20;
const MOST_SQUARES = 1 << 30;

interface Merge {
  left: string;
  right: string;
  score: number;
  /** Characters of each. */
  leftLength: number;
  rightLength: number;
}

export function mergesByScore({ texts, types, scores }: Vocabulary, metadata: Metadata): [string, string][] {
  const ids = new Map<string, number>();
  for (const [id, text] of texts.entries()) {
    if (text !== undefined && canMerge(types[id]!)) ids.set(text, id);
  }
  const merges: Merge[] = [];
  let [merged, squares] = [0, 0];
  for (const [text, id] of ids) {
    const characters = Array.from(text);
    squares += characters.length ** 2;
    if (merged > MOST_MERGED || squares > MOST_SQUARES) throw tooManyMerges(metadata, merged, squares);
    if (characters.length > MOST_CHARACTERS) {
      const message = `token ${named(id, text)} has ${characters.length} characters, expected at most ${MOST_CHARACTERS}`;
      throw metadata.fault('tokenizer.ggml.tokens', message);
    }
    const own: Merge[] = [];
    for (
      let at = 1, place = characters[0]!.length;
      at < characters.length;
      place += characters[at]!.length, at += 1
    ) {
      const [left, right] = [text.slice(0, place), text.slice(place)];
      if (!ids.has(left) || !ids.has(right)) continue;
      own.push({ left, right, score: scores![id]!, leftLength: at, rightLength: characters.length - at });
      merged += text.length;
    }
    merges.push(...own.sort((a, b) => ids.get(a.left)! - ids.get(b.left)!));
  }
  merges.sort((a, b) => b.score - a.score || b.leftLength - a.leftLength || b.rightLength - a.rightLength);
  return merges.map(({ left, right }) => [left, right]);
}

function tooManyMerges(metadata: Metadata, merged: number, squares: number): Error {
  const message =
    `the tokens can be merged in too many ways: merges of ${merged} characters, expected at most ${MOST_MERGED}, ` +
    `and ${squares} pairs of characters, expected at most ${MOST_SQUARES}`;
  return metadata.fault('tokenizer.ggml.tokens', message);
}

/** Text never becomes a control token or a byte by merging. */
function canMerge(type: number): boolean {
  return type !== TOKEN_TYPE.control && type !== TOKEN_TYPE.unknown && type !== TOKEN_TYPE.byte;
}
