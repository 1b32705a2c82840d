/**
 * Whole layers stream through the device in their order: encoder, decoder, encoder, … This is what model parallelism
 * under a budget and ZeRO-Inference do, in a strong form: what comes next is known for certain, so the layers whose
 * turn is farthest away leave first, and prefetch goes as deep as the slots allow.
 */
import type { Residency, ResidencyPlan } from '../native/addon-types.js';

const RESIDENT = 2;

export interface LayerOrder {
  encoderLayers: number;
  decoderLayers: number;
  /** Experts of a layer. */
  experts: number;
}

/** The plan of a pass over the layers of `phase`, behind which the other phase follows. */
export function streamingPlan(
  phase: 'encode' | 'decode',
  { encoderLayers, decoderLayers, experts }: LayerOrder,
  residency: Residency,
): ResidencyPlan {
  const layers = encoderLayers + decoderLayers;
  const first = phase === 'encode' ? 0 : encoderLayers;
  const keys = new Float64Array(layers * experts);
  const keysAfter = new Float64Array(layers * experts);
  const loads: number[] = [];
  for (let turn = 0; turn < layers; turn++) {
    const layer = (first + turn) % layers;
    for (let id = layer * experts; id < (layer + 1) * experts; id++) {
      keys[id] = turn;
      keysAfter[id] = turn + layers;
      if (residency.state[id] !== RESIDENT) loads.push(id);
    }
  }
  return { keys, keysAfter, loads: Uint32Array.from(loads), newestFirst: false };
}
