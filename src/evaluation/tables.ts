/** Tables of one input, and what they let the residency planner expect. */
import { visitsOf } from '../inference/expected-visits.js';
import { refinement } from '../inference/refinement.js';
import type { ExpectedVisit } from '../inference/residency-planner.js';
import type { PredictorInput } from '../native/addon-types.js';
import { fillNeed } from '../predictor/expert-need.js';
import {
  type HashFunction,
  layersOf,
  type RoutingShape,
  type Side,
  type TableRefiner,
  tableKind,
} from '../predictor/hash-function.js';
import { createHashTable, type HashTable, TABLE_K, TABLE_READY } from '../predictor/hash-table.js';
import type { ExactRun, TruePass } from './model-runner.js';
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

/** What the table says of the pass after the routing of each layer but the last. */
function refinedVisits(
  table: HashTable | null,
  { side, tokens, dispatch }: TruePass,
  refiner: TableRefiner | null,
  firstLayer: number,
): ExpectedVisit[][] {
  if (table === null) return [];
  const own = tableOfTokens(table, 0, tokens);
  const rows = Int32Array.from({ length: tokens }, (_, t) => t);
  const known = { own: visitsOf(own, firstLayer), behind: [], predicted: { table: own, rows }, routingK: 0 };
  const refined: ExpectedVisit[][] = [];
  const onRouted = refinement(refiner, side, known, (now) => {
    refined.push(now.own.map((visit) => ({ ...visit, need: visit.need.slice() })));
    return null;
  });
  for (let layer = 0; layer < own.layers; layer++) {
    onRouted?.(layer, dispatch.subarray(layer * tokens, (layer + 1) * tokens));
  }
  return refined;
}

/**
 * An input as a batch of its own. Tables of labels are there with the encoder's; those of a continuation only as its
 * steps come.
 */
export function batchOf(
  { passes, scores }: ExactRun,
  tables: Tables,
  refiner: TableRefiner | null,
  encoderLayers: number,
): ReplayBatch {
  const encoder = visitsOf(tables.encoder, 0);
  const decoder = scores === null ? [] : visitsOf(tables.decoder, encoderLayers);
  let token = 0;
  return {
    passes: passes.map((pass) => {
      if (pass.side === 'encoder') {
        const refined = refinedVisits(tables.encoder, pass, refiner, 0);
        return { visits: pass.needed, own: encoder, refined, behind: decoder };
      }
      const table = tables.decoder && tableOfTokens(tables.decoder, token, pass.tokens);
      token += pass.tokens;
      const refined = refinedVisits(table, pass, refiner, encoderLayers);
      return { visits: pass.needed, own: visitsOf(table, encoderLayers), refined, behind: [] };
    }),
    foreseen: { encoder, decoder },
  };
}
