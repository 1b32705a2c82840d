/** Makes the table of an input. */
import { fillNeed } from '../forecast/expert-need.js';
import type { HashFunction, HashInput, RoutingShape } from '../predictor/hash-function.js';
import { createHashTable, type HashTable, TABLE_READY, tableK } from '../protocol/hash-table.js';

/** The table of an input. Null when the function has no forecast for it. */
export function fillTable(
  hash: HashFunction,
  shape: RoutingShape,
  stack: number,
  input: HashInput,
): HashTable | null {
  const table = createHashTable({
    batchId: 0,
    layers: shape.stacks[stack]!.layers,
    tokens: input.tokens.length,
    k: tableK(shape),
    expertsPerLayer: shape.experts,
  });
  if (!hash.fill(stack, input, table)) return null;
  fillNeed(table);
  table.settle(TABLE_READY);
  return table;
}
