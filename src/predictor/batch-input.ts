/** What a batch gives a hash function to name experts by. */
import type { EncodeBatch } from '../inference/messages.js';
import type { BatchInput } from './table-builder.js';

/** The decoder tokens that are known beforehand: those of labels. A generation's are predicted step by step. */
export function batchInput({ id, routingK, items, tokens, offsets }: EncodeBatch): BatchInput {
  const encoder = { tokens, offsets };
  const labels: number[] = [];
  const labelOffsets = [0];
  const context: number[] = [];
  const contextOffsets = [0];
  items.forEach(({ work }, i) => {
    if (work.kind !== 'score') return;
    for (const input of work.plan.inputs) {
      labels.push(...input.tokens);
      labelOffsets.push(labels.length);
      for (let t = offsets[i]!; t < offsets[i + 1]!; t++) context.push(tokens[t]!);
      contextOffsets.push(context.length);
    }
  });
  if (labels.length === 0) return { id, routingK, encoder, decoder: null };
  const decoder = {
    tokens: Int32Array.from(labels),
    offsets: Int32Array.from(labelOffsets),
    contextTokens: Int32Array.from(context),
    contextOffsets: Int32Array.from(contextOffsets),
  };
  return { id, routingK, encoder, decoder };
}
