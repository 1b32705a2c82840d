/** Chooses the sequences that are held out of training. */
import { randomOf, shuffle } from '../random.js';

/** Longest run of sequences. Neighbouring lines of a data file often share text, so they are held out together. */
const LONGEST_RUN = 100;
const LEAST_RUNS = 10;

/** Returns ascending sequence numbers. A share above 0 holds out at least one of two or more sequences. */
export function splitHeldOut(
  count: number,
  share: number,
  seed: number,
): { train: Int32Array; heldOut: Int32Array } {
  const wanted = share > 0 && count > 1 ? Math.min(count - 1, Math.max(1, Math.round(count * share))) : 0;
  const run = Math.max(1, Math.min(LONGEST_RUN, Math.floor(wanted / LEAST_RUNS)));
  const runs = shuffle(
    Array.from({ length: Math.ceil(count / run) }, (_, i) => i),
    randomOf(seed, -1),
  );
  const held = new Uint8Array(count);
  let left = wanted;
  for (const which of runs) {
    for (let i = which * run; i < Math.min(count, (which + 1) * run) && left > 0; i++, left--) held[i] = 1;
    if (left === 0) break;
  }
  const all = Array.from({ length: count }, (_, i) => i);
  return {
    train: Int32Array.from(all.filter((i) => held[i] === 0)),
    heldOut: Int32Array.from(all.filter((i) => held[i] === 1)),
  };
}

/** Draws sequences by seed until they hold at least `tokens` tokens. Returns them ascending. */
export function sampleTokens(
  sequences: Int32Array,
  lengthOf: (sequence: number) => number,
  tokens: number,
  seed: number,
): Int32Array {
  const order = shuffle(sequences.slice(), randomOf(seed, -2));
  let sum = 0;
  let count = 0;
  while (count < order.length && sum < tokens) sum += lengthOf(order[count++]!);
  return order.slice(0, count).sort();
}
