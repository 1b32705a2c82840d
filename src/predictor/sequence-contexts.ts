/** Joins sequences with the contexts they continue, and locates the sequences' own tokens in the result. */
import type { HashInput } from './hash-function.js';

/** Returns the sequences, each preceded by its context. */
export function withContexts({ tokens, offsets, contextTokens, contextOffsets }: HashInput): HashInput {
  if (contextTokens === undefined || contextOffsets === undefined) return { tokens, offsets };
  const whole = new Int32Array(tokens.length + contextTokens.length);
  const ends = offsets.map((offset, s) => offset + contextOffsets[s]!);
  for (let s = 0; s + 1 < offsets.length; s++) {
    const context = contextTokens.subarray(contextOffsets[s], contextOffsets[s + 1]);
    whole.set(context, ends[s]!);
    whole.set(tokens.subarray(offsets[s], offsets[s + 1]), ends[s]! + context.length);
  }
  return { tokens: whole, offsets: ends };
}

/** Returns the position of each own token in the result of withContexts(). */
export function rowsBehind({ tokens, offsets, contextOffsets }: HashInput): number[] {
  const rows: number[] = [];
  for (let s = 0; s + 1 < offsets.length; s++) {
    for (let t = offsets[s]!; t < offsets[s + 1]!; t++) rows.push(t + (contextOffsets?.[s + 1] ?? 0));
  }
  return rows.slice(0, tokens.length);
}

export function contextOf({ contextTokens, contextOffsets }: HashInput, sequence: number): Int32Array {
  return (
    contextTokens?.subarray(contextOffsets?.[sequence], contextOffsets?.[sequence + 1]) ?? new Int32Array()
  );
}
