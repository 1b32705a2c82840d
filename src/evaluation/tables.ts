/** Tables of one input, and what they let the residency planner expect. */
import { visitsOf } from '../inference/expected-visits.js';
import type { PredictorInput } from '../native/addon-types.js';
import { fillNeed } from '../predictor/expert-need.js';
import { type HashFunction, layersOf, type RoutingShape, type Side, tableKind } from '../predictor/hash-function.js';
import { createHashTable, type HashTable, TABLE_K, TABLE_READY } from '../predictor/hash-table.js';
import type { ExactRun, TruePass } from './model-runner.js';
import type { ReplayBatch } from './replay.js';

export type Tables = Record<Side, HashTable | null>;

function emptyTable({ name }: HashFunction, shape: RoutingShape, side: Side, tokens: number): HashTable {
  return createHashTable({
    batchId: 0,
    layers: layersOf(shape, side),
    tokens,
    k: Math.min(TABLE_K, shape.experts),
    kind: tableKind(name),
    expertsPerLayer: shape.experts,
  });
}

/** Null where the function cannot say. */
export function fillTable(
  hash: HashFunction,
  shape: RoutingShape,
  side: Side,
  input: PredictorInput,
): HashTable | null {
  const table = emptyTable(hash, shape, side, input.tokens.length);
  if (!hash.fill(side, input, table.k, table.experts, table.alpha, table.chance)) return null;
  fillNeed(table);
  table.settle(TABLE_READY);
  return table;
}

/** The row of one token. */
function tokenTable(table: HashTable, hash: HashFunction, shape: RoutingShape, token: number): HashTable {
  const own = emptyTable(hash, shape, 'decoder', 1);
  for (let layer = 0; layer < table.layers; layer++) {
    const from = (layer * table.tokens + token) * table.k;
    own.experts.set(table.experts.subarray(from, from + table.k), layer * table.k);
    own.chance.set(table.chance.subarray(from, from + table.k), layer * table.k);
  }
  fillNeed(own);
  own.settle(TABLE_READY);
  return own;
}

/**
 * An input as a batch of its own. Tables of labels are there with the encoder's; those of a continuation only as its
 * steps come.
 */
export function batchOf(
  { passes, scores }: ExactRun,
  tables: Tables,
  hash: HashFunction,
  shape: RoutingShape,
): ReplayBatch {
  const encoder = visitsOf(tables.encoder, 0);
  const labels = scores === null ? [] : visitsOf(tables.decoder, shape.encoderLayers);
  let step = 0;
  const ownOf = ({ side }: TruePass) => {
    if (side === 'encoder') return encoder;
    if (scores !== null) return labels;
    const table = tables.decoder && tokenTable(tables.decoder, hash, shape, step++);
    return visitsOf(table, shape.encoderLayers);
  };
  return {
    passes: passes.map((pass) => {
      const behind = pass.side === 'encoder' ? labels : [];
      return { visits: pass.needed, own: ownOf(pass), behind };
    }),
    foreseen: [...encoder, ...labels],
  };
}
