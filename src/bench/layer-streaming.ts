/**
 * Whole layers stream through the device in their order: encoder, decoder, encoder, … This is what model parallelism
 * under a budget and ZeRO-Inference do, in a form that favours it: a layer computes experts as they arrive, prefetch goes
 * as deep as the slots allow, and a budget too small for a layer streams it in parts.
 */
import type { ResidencyPlan } from '../native/addon-types.js';

/** The plan from the turn of each layer on, by flat layer number. `experts`: of a layer. */
export function streamingPlans(layers: number, experts: number): ResidencyPlan[] {
  return Array.from({ length: layers }, (_, current) => planFrom(current, layers, experts));
}

function planFrom(current: number, layers: number, experts: number): ResidencyPlan {
  const keys = new Float64Array(layers * experts);
  const keysAfter = new Float64Array(layers * experts);
  const loads = new Uint32Array(layers * experts);
  for (let turn = 0; turn < layers; turn++) {
    const first = ((current + turn) % layers) * experts;
    for (let index = 0; index < experts; index++) {
      const id = first + index;
      keys[id] = turn;
      // Layers that the pass has used come again behind those ahead of it; the current one last of all.
      keysAfter[id] = turn === 0 ? layers : turn;
      // The store passes over what is there already.
      loads[turn * experts + index] = id;
    }
  }
  return { keys, keysAfter, loads, expendable: 0, newestFirst: false };
}
