/**
 * Whole layers stream through the device in their order: encoder, decoder, encoder, … This is what model parallelism
 * under a budget and ZeRO-Inference do, in a form that favours it: a layer computes experts as they arrive, prefetch
 * goes as deep as the slots allow, and a budget too small for a layer streams it in parts.
 */
import type { ModelShape, ResidencyPlan } from '../../../dist/native/addon-types.js';

/** The plan of a pass that begins at MoE layer `first`. */
export function streamingPlan(first: number, { firstExperts }: Pick<ModelShape, 'firstExperts'>): ResidencyPlan {
  const experts = firstExperts.at(-1)!;
  const layers = firstExperts.length - 1;
  const keys = new Float64Array(experts);
  const keysAfter = new Float64Array(experts);
  const loads = new Uint32Array(experts);
  let listed = 0;
  for (let turn = 0; turn < layers; turn++) {
    const layer = (first + turn) % layers;
    for (let id = firstExperts[layer]!; id < firstExperts[layer + 1]!; id++) {
      keys[id] = turn;
      // A layer that the pass has used is needed again one round later.
      keysAfter[id] = turn + layers;
      // The store skips experts that are resident.
      loads[listed++] = id;
    }
  }
  return { keys, keysAfter, loads, expendable: 0, newestFirst: false };
}
