/** Makes the tables of one input, and the visits that the residency planner expects from them. */
import { joinSpans } from '../batching/row-spans.js';
import { visitsOf } from '../predictor/expected-visits.js';
import { fillNeed } from '../predictor/expert-need.js';
import {
  firstLayerOf,
  type HashFunction,
  type HashInput,
  type RoutingShape,
} from '../predictor/hash-function.js';
import { createHashTable, type HashTable, TABLE_READY, tableK } from '../protocol/hash-table.js';
import type { ExactRun } from './model-runner.js';
import type { ReplayBatch, ReplayPass } from './replay.js';

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

/**
 * Makes a batch of one input. `tables` has one entry per part. The tables of known tokens are ready with the batch.
 * The tables of a continuation become ready one step at a time.
 */
export function batchOf(
  { parts }: ExactRun,
  tables: readonly (HashTable | null)[],
  shape: Pick<RoutingShape, 'stacks'>,
): ReplayBatch {
  const visits = parts.map(({ stack }, i) => visitsOf(tables[i]!, firstLayerOf(shape, stack)));
  const passes = parts.flatMap(({ stack, passes: own, known }, i): ReplayPass[] => {
    const behind = visits.slice(i + 1).flatMap((later, l) => (parts[i + 1 + l]!.known ? later : []));
    if (known) return own.map(({ needed }) => ({ visits: needed, own: visits[i]!, behind }));
    const table = tables[i]!;
    let token = 0;
    return own.map(({ needed, tokens }) => {
      const step = table && joinSpans([{ table, row: token, count: tokens }], 0);
      token += tokens;
      return { visits: needed, own: visitsOf(step, firstLayerOf(shape, stack)), behind: [] };
    });
  });
  return { passes, forecast: visits.filter((_, i) => parts[i]!.known).flat() };
}
