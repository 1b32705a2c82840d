/** Tables of one input, and what they let the residency planner expect. */
import { visitsOf } from '../inference/expected-visits.js';
import type { PredictorInput } from '../native/addon-types.js';
import { fillNeed } from '../predictor/expert-need.js';
import {
  type HashFunction,
  layersOf,
  type RoutingShape,
  type Side,
  tableKind,
} from '../predictor/hash-function.js';
import { createHashTable, type HashTable, TABLE_K, TABLE_READY } from '../predictor/hash-table.js';
import type { ExactRun } from './model-runner.js';
import type { ReplayBatch } from './replay.js';

export type Tables = Record<Side, HashTable | null>;

/** Null where the function cannot say. */
export function fillTable(
  hash: HashFunction,
  shape: RoutingShape,
  side: Side,
  input: PredictorInput,
): HashTable | null {
  const table = createHashTable({
    batchId: 0,
    layers: layersOf(shape, side),
    tokens: input.tokens.length,
    k: Math.min(TABLE_K, shape.experts),
    kind: tableKind(hash.name),
    expertsPerLayer: shape.experts,
  });
  if (!hash.fill(side, input, table.k, table.experts, table.alpha, table.chance)) return null;
  fillNeed(table);
  table.settle(TABLE_READY);
  return table;
}

/** A table of its own with some of the tokens, in their order. */
function tableOfTokens(table: HashTable, begin: number, tokens: number): HashTable {
  const { layers, k, kind, expertsPerLayer } = table;
  const own = createHashTable({ batchId: 0, layers, tokens, k, kind, expertsPerLayer });
  for (let layer = 0; layer < layers; layer++) {
    const from = (layer * table.tokens + begin) * k;
    for (const name of ['experts', 'alpha', 'chance'] as const) {
      own[name].set(table[name].subarray(from, from + tokens * k), layer * tokens * k);
    }
  }
  fillNeed(own);
  own.settle(TABLE_READY);
  return own;
}

/**
 * An input as a batch of its own. Tables of labels are there with the encoder's; those of a continuation only as its
 * steps come.
 */
export function batchOf({ passes, scores }: ExactRun, tables: Tables, encoderLayers: number): ReplayBatch {
  const encoder = visitsOf(tables.encoder, 0);
  const decoder = scores === null ? [] : visitsOf(tables.decoder, encoderLayers);
  let token = 0;
  return {
    passes: passes.map((pass) => {
      if (pass.side === 'encoder') {
        return { visits: pass.needed, own: encoder, behind: decoder };
      }
      const table = tables.decoder && tableOfTokens(tables.decoder, token, pass.tokens);
      token += pass.tokens;
      return { visits: pass.needed, own: visitsOf(table, encoderLayers), behind: [] };
    }),
    foreseen: { encoder, decoder },
  };
}
