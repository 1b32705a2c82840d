/** The bound of a measurement: what Belady's rule moves for the same needs from the same beginning. */

import { type MemoryPlan, type ModelShape, NO_EXPERT, type RunResult } from '../../../dist/native/addon-types.js';
import { leastBytes } from '../replay/fewest-loads.js';

/** What a run's device held when the measured passes began, and what these needed. */
interface MeasuredNeeds {
  /** Flat ids of the experts that were resident or on their way. */
  begin: readonly number[];
  /** Flat ids by layer of each pass, in order. */
  visits: readonly (readonly number[])[];
}

export function leastBytesOf(
  { begin, visits }: MeasuredNeeds,
  { experts, layerExperts, blockBytes }: Pick<MemoryPlan, 'experts' | 'layerExperts' | 'blockBytes'>,
  slots: number,
): number {
  const bytes = layerExperts.flatMap((own, layer) => new Array<number>(own).fill(blockBytes[layer]!));
  const bytesOf = (id: number) => bytes[id]!;
  return leastBytes(visits, { experts, slots, bytesOf, begin });
}

/** Where whole layers are loaded, `found` has experts that no token went to; `dispatch` has not. */
export function visitsOf(
  { layers, dispatch }: RunResult,
  { firstExperts }: Pick<ModelShape, 'firstExperts'>,
): number[][] {
  const entries = dispatch.length / layers.length;
  return Array.from(layers, (flatLayer, layer) => {
    const chosen = new Set(dispatch.subarray(layer * entries, (layer + 1) * entries));
    chosen.delete(NO_EXPERT);
    return [...chosen].sort((a, b) => a - b).map((expert) => firstExperts[flatLayer]! + expert);
  });
}

/** Flat ids of the experts that hold a slot. */
export function heldBy(state: ArrayLike<number>): number[] {
  return Array.from(state).flatMap((own, id) => (own === 0 ? [] : [id]));
}
