/**
 * T5's pre-training task: sentinels replace spans of a text, and the target spells the spans out. 5 % of the
 * positions begin a span of 1 to 5 tokens, which hides about 14 % of the tokens.
 */
import { SidaError } from '../errors.js';

/** Tokens per input before corruption. */
export const WINDOW = 64;
/** A last window with fewer tokens is left out. */
const SHORTEST = 8;
const BEGIN = 0.05;
const LONGEST_SPAN = 5;

interface Corrupted {
  input: number[];
  target: number[];
}

/** `sentinels` are the ids of `<extra_id_0>`, `<extra_id_1>`, … in order. At least one token is hidden. */
export function corrupt(
  ids: readonly number[],
  random: () => number,
  sentinels: readonly number[],
  endToken: number,
): Corrupted {
  const input: number[] = [];
  const target: number[] = [];
  let spans = 0;
  for (let at = 0; at < ids.length; ) {
    if (random() < BEGIN && spans < sentinels.length) {
      const length = 1 + Math.floor(random() * LONGEST_SPAN);
      input.push(sentinels[spans]!);
      target.push(sentinels[spans]!, ...ids.slice(at, at + length));
      at += length;
      spans += 1;
    } else {
      input.push(ids[at]!);
      at += 1;
    }
  }
  if (spans === 0) {
    input[0] = sentinels[0]!;
    target.push(sentinels[0]!, ids[0]!);
  }
  return { input: [...input, endToken], target: [...target, endToken] };
}

/** Cuts tokens into windows of `length` tokens. */
export function windowsOf(tokens: readonly number[], length: number): number[][] {
  const windows: number[][] = [];
  for (let at = 0; at < tokens.length; at += length) {
    const window = tokens.slice(at, at + length);
    if (window.length >= SHORTEST) windows.push(window);
  }
  return windows;
}

/** The ids of the sentinels `<extra_id_0>`, `<extra_id_1>`, … in order. Throws cannot_run when there are none. */
export function sentinelsOf(vocab: number, pieceOf: (id: number) => string): number[] {
  const ids = new Map<number, number>();
  for (let id = 0; id < vocab; id++) {
    const number = /^<extra_id_(\d{1,4})>$/.exec(pieceOf(id))?.[1];
    if (number !== undefined) ids.set(Number(number), id);
  }
  const sentinels: number[] = [];
  while (ids.has(sentinels.length)) sentinels.push(ids.get(sentinels.length)!);
  if (sentinels.length > 0) return sentinels;
  throw new SidaError({
    code: 'cannot_run',
    message: 'The tokenizer has no <extra_id_0>: there is no span corruption to measure perplexity with',
  });
}
