/** Builds the batch that the threads exchange from waiting items. */
import type { BatchItem, PromptBatch } from '../protocol/inference-messages.js';

export interface PendingItem extends BatchItem {
  tokens: readonly number[];
  /** Experts per token if tables route the item; 0 if the model's routers do. Equal within a batch. */
  routingK: number;
}

/** All items must have the same routingK. Tokens and offsets are in shared memory. */
export function promptBatch(id: number, items: readonly PendingItem[]): PromptBatch {
  const total = items.reduce((sum, { tokens }) => sum + tokens.length, 0);
  const offsets = new Int32Array(new SharedArrayBuffer((items.length + 1) * 4));
  const tokens = new Int32Array(new SharedArrayBuffer(total * 4));
  items.forEach((item, i) => {
    tokens.set(item.tokens, offsets[i]!);
    offsets[i + 1] = offsets[i]! + item.tokens.length;
  });
  return {
    id,
    routingK: items[0]!.routingK,
    items: items.map(({ tokens: _, routingK: __, ...item }) => item),
    offsets,
    tokens,
  };
}
