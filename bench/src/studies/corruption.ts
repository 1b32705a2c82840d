/** Inputs with a part of their tokens changed, and inputs of one length. */
import { shuffle } from '../../../dist/predictor/random.js';

export interface Corrupted {
  corrupted: Int32Array;
  /** Places whose tokens are as they were, without the end token's. */
  kept: number[];
}

/** Replaces a share of the tokens but the end token. At least one token stays, to be compared. */
export function corrupt(
  tokens: Int32Array,
  share: number,
  random: () => number,
  other: (than: number) => number,
): Corrupted {
  const words = tokens.length - 1;
  const count = Math.min(Math.max(0, words - 1), Math.max(1, Math.round(share * (words - 1))));
  const order = positions(words, words, random);
  const corrupted = tokens.slice();
  for (const at of order.slice(0, count)) corrupted[at] = other(tokens[at]!);
  return { corrupted, kept: order.slice(count) };
}

/**
 * Moves a share of the tokens but the end token, each to the place of another that moves. Two at least move, and one
 * at least stays: an input needs three tokens before its end.
 */
export function swap(tokens: Int32Array, share: number, random: () => number): Corrupted {
  const words = tokens.length - 1;
  const count = Math.min(words - 1, Math.max(2, Math.round(share * (words - 1))));
  const order = positions(words, words, random);
  const corrupted = tokens.slice();
  // A cycle through places in random order: every one of them gets another's token.
  for (let i = 0; i < count; i++) corrupted[order[i]!] = tokens[order[(i + 1) % count]!]!;
  return { corrupted, kept: order.slice(count) };
}

/** `count` different places below `length`, in random order. */
export function positions(length: number, count: number, random: () => number): number[] {
  const all = Array.from({ length: Math.max(0, length) }, (_, t) => t);
  return shuffle(all, random).slice(0, count);
}

/**
 * The inputs, joined without their end tokens and cut into inputs of `length` tokens, each with the end token behind
 * it. What is left over is dropped.
 */
export function cut(inputs: readonly Int32Array[], length: number): Int32Array[] {
  const end = inputs[0]?.at(-1);
  if (end === undefined) return [];
  const words = inputs.flatMap((tokens) => [...tokens.subarray(0, -1)]);
  return Array.from({ length: Math.floor(words.length / (length - 1)) }, (_, i) =>
    Int32Array.from([...words.slice(i * (length - 1), (i + 1) * (length - 1)), end]),
  );
}
