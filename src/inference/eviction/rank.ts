import type { Residency } from '../../native/addon-types.js';

const RESIDENT = 2;

/** Resident, unpinned experts by ascending key, ties by ascending flat id. */
export function rankByKey(residency: Residency, key: (id: number) => number): Uint32Array {
  const { state, pinned } = residency;
  const experts = state.length;
  const candidates: number[] = [];
  let largest = 0;
  for (let id = 0; id < experts; id++) {
    if (state[id] !== RESIDENT || pinned[id] !== 0) continue;
    candidates.push(id);
    largest = Math.max(largest, Math.abs(key(id)));
  }
  if ((largest + 1) * experts > Number.MAX_SAFE_INTEGER) {
    return Uint32Array.from(candidates.sort((a, b) => key(a) - key(b) || a - b));
  }
  // Key and id in one number: a sort without a comparator takes a third of the time, and a miss waits for it.
  const packed = new Float64Array(candidates.length);
  for (let i = 0; i < packed.length; i++) packed[i] = key(candidates[i]!) * experts + candidates[i]!;
  packed.sort();
  const ranked = new Uint32Array(packed.length);
  for (let i = 0; i < ranked.length; i++) ranked[i] = ((packed[i]! % experts) + experts) % experts;
  return ranked;
}
