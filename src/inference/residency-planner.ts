/** What to move for a pass: pure, from what its table and those queued behind it expect of each expert. */
import type { Residency, ResidencyPlan } from '../native/addon-types.js';
import type { EvictionPolicy } from './eviction/index.js';

/** One MoE layer's turn in the time to come. */
export interface ExpectedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** (experts of a layer), chance that the layer will need the expert. */
  need: Float32Array;
  /** (experts of a layer), chance by which experts are prefetched where that is less than `need`. */
  prefetch?: Float32Array;
}

export interface PlanInput {
  /** In order of time: the layers of the pass about to run, then those of the passes behind it. */
  visits: readonly ExpectedVisit[];
  /** How many of them belong to the pass. */
  passVisits: number;
  /** How many of them prefetches may be for: the pass's and those soon behind it. */
  prefetchVisits: number;
  residency: Residency;
  policy: EvictionPolicy;
}

/**
 * An expert is prefetched for a layer that needs it with at least this chance: a wrong prefetch costs a move, and what
 * it evicted another.
 */
export const PREFETCH_CHANCE = 0.95;

/** Keys of policies without foresight begin here, behind every time a plan can name. */
const UNKNOWN = 2 ** 40;

const RESIDENT = 2;

/**
 * With foresight an expert's key is its expected next use, in visits from now:
 * Σ t · P(first needed at t) + P(not needed) · (visits + the policy's guess); with certain tables this is Belady's
 * rule. Without, only this pass's needs are protected. Loads: likely needed experts that are not resident, the nearest
 * first, those under way among them: a prefetch that no plan names is taken back. The store takes up each as soon as a
 * slot is free or holds an expert with a larger key.
 */
export function planResidency(input: PlanInput): ResidencyPlan {
  const { visits, passVisits, prefetchVisits, residency, policy } = input;
  const { before, after } = policy.rank(residency);
  const seen = policy.foresight ? visits : visits.slice(0, passVisits);
  const keys = policy.foresight ? expectedUse(seen, 0, before) : unknownUse(before);
  const keysAfter = policy.foresight ? expectedUse(seen, passVisits, after) : unknownUse(after);
  const loads: number[] = [];
  const listed = new Set<number>();
  seen.forEach(({ firstId, need, prefetch = need }, time) => {
    for (let index = 0; index < need.length; index++) {
      if (need[index]! < PREFETCH_CHANCE) continue;
      const id = firstId + index;
      if (!policy.foresight) keys[id] = Math.min(keys[id]!, time);
      if (prefetch[index]! < PREFETCH_CHANCE || time >= prefetchVisits) continue;
      if (residency.state[id] === RESIDENT || listed.has(id)) continue;
      listed.add(id);
      loads.push(id);
    }
  });
  return { keys, keysAfter, loads: Uint32Array.from(loads), newestFirst: policy.newestFirst };
}

/** Expected time of the first use from visit `from` on; `guess` is in visits beyond the last one. */
function expectedUse(visits: readonly ExpectedVisit[], from: number, guess: Float64Array): Float64Array {
  const time = new Float64Array(guess.length);
  const unused = new Float64Array(guess.length).fill(1);
  for (let t = from; t < visits.length; t++) {
    const { firstId, need } = visits[t]!;
    for (let index = 0; index < need.length; index++) {
      const chance = need[index]!;
      if (chance === 0) continue;
      const id = firstId + index;
      time[id]! += t * chance * unused[id]!;
      unused[id]! *= 1 - chance;
    }
  }
  const horizon = visits.length;
  for (let id = 0; id < time.length; id++) time[id]! += unused[id]! * (horizon + guess[id]!);
  return time;
}

function unknownUse(ranks: Float64Array): Float64Array {
  const keys = new Float64Array(ranks.length);
  for (let id = 0; id < ranks.length; id++) keys[id] = UNKNOWN + ranks[id]!;
  return keys;
}
