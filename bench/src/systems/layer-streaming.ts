/**
 * Whole layers stream through the device in their order: encoder, decoder, encoder, … This is what model parallelism
 * under a budget and ZeRO-Inference do, in a form that favours it: a layer computes experts as they arrive, prefetch
 * goes as deep as the slots allow, and a budget too small for a layer streams it in parts.
 */
import type { ResidencyPlan } from '../../../dist/native/addon-types.js';

/** The plan of a pass that begins at MoE layer `first` of `layers`, each with `experts` experts. */
export function streamingPlan(first: number, layers: number, experts: number): ResidencyPlan {
  const keys = new Float64Array(layers * experts);
  const keysAfter = new Float64Array(layers * experts);
  const loads = new Uint32Array(layers * experts);
  for (let turn = 0; turn < layers; turn++) {
    const firstId = ((first + turn) % layers) * experts;
    for (let index = 0; index < experts; index++) {
      const id = firstId + index;
      keys[id] = turn;
      // A layer that the pass has used is needed again one round later.
      keysAfter[id] = turn + layers;
      // The store skips experts that are resident.
      loads[turn * experts + index] = id;
    }
  }
  return { keys, keysAfter, loads, expendable: 0, newestFirst: false };
}
