/** What routes an input in place of the model's routers: its tables, random tables, or nothing at all. */
import type { NativeRouting } from '../native/addon-types.js';
import type { ExpertNames } from '../predictor/functions/shuffled.js';
import { routingOf } from '../predictor/pass-forecast.js';
import type { HashTable } from '../protocol/hash-table.js';

/** The first `k` entries of each token. */
export function routingBy(table: HashTable, k: number): NativeRouting {
  const rows = Int32Array.from({ length: table.tokens }, (_, t) => t);
  return routingOf({ table, rows }, k);
}

/** The same with the experts of each layer renamed: as many experts with the same weights, but the wrong ones. */
export function renamed(
  routing: NativeRouting,
  stack: number,
  layers: number,
  names: ExpertNames,
): NativeRouting {
  const experts = routing.experts.slice();
  names.rename(stack, experts, experts.length / layers);
  return { ...routing, experts };
}

/** Weighs the one expert that it names with 0, so that the MoE layers add nothing: experts of zeros. */
export function routingToNothing(layers: number, tokens: number): NativeRouting {
  return { experts: new Uint16Array(layers * tokens), alpha: new Float32Array(layers * tokens), k: 1 };
}
