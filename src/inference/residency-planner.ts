/** Plans the moves for a pass. Pure: the inputs are the forecasts of the pass's table and of the queued tables. */
import { RESIDENT, type Residency, type ResidencyPlan } from '../native/addon-types.js';
import type { ExpectedVisit } from '../predictor/expected-visits.js';
import type { EvictionPolicy, KnownVisits } from './eviction/policy.js';
import { rehearse } from './rehearsal.js';

export interface PlanInput {
  /** In order of time: the layers of the next pass, then those of later passes. */
  visits: readonly ExpectedVisit[];
  /** How many of the visits belong to the pass. */
  passVisits: number;
  /** How many of the visits belong to the pass's batch. */
  batchVisits: number;
  /** How many of the visits may be prefetched for: those of the pass and of the passes soon after it. */
  prefetchVisits: number;
  /** Whether the link has time for extra moves that reduce waiting. */
  spareLink?: boolean;
  residency: Residency;
  policy: EvictionPolicy;
}

/**
 * Least chance of need at which an expert is prefetched. A wrong prefetch costs one move, and another to reload the
 * expert that it evicted.
 */
export const PREFETCH_CHANCE = 0.95;

const NOTHING_KNOWN: KnownVisits = { count: 0, own: [] };

/** Keys of evictable experts start here, above every time in a plan. */
const EXPENDABLE = 2 ** 40;

/**
 * With a forecast, an expert's key is its expected next use, in visits from now:
 * Σ t · P(first needed at t) + P(not needed) · (the policy's estimate beyond the visits).
 * With certain tables this is Belady's rule. A rehearsal of the visits finds the experts that are evicted before that
 * use; only these make room for prefetches. Without a forecast, only the needs of this pass are protected.
 *
 * Loads are the experts that are likely needed and are not resident, or will have been evicted by then, nearest need
 * first. Loads that have begun are listed too, because the store cancels a prefetch that the plan omits. The store
 * starts each load as soon as a slot is free or an expendable expert can be evicted.
 */
export function planResidency(input: PlanInput): ResidencyPlan {
  return input.policy.usesForecast && input.visits.length > 0 ? planAhead(input) : planThisPass(input);
}

/** Plans without tables: nothing is prefetched, and the policy chooses the victims. */
export function planOnDemand(residency: Residency, policy: EvictionPolicy): ResidencyPlan {
  return planResidency({ visits: [], passVisits: 0, batchVisits: 0, prefetchVisits: 0, residency, policy });
}

function planAhead(input: PlanInput): ResidencyPlan {
  const { visits, passVisits, spareLink = false, residency, policy } = input;
  const use = expectedUse(input);
  const ahead = visits.slice(0, input.prefetchVisits);
  const { goesNow, goesAfterUse, loads } = rehearse({
    visits: ahead.map(({ firstId, need }, time) => ({
      firstId,
      needed: likely(need),
      nextUse: use.afterVisit[time]!,
    })),
    passVisits,
    batchVisits: input.batchVisits,
    layers: new Set(visits.map(({ firstId }) => firstId)).size,
    spareLink,
    nextUse: use.now,
    residency,
  });
  const { now: keys, afterPass: keysAfter, unneeded: keysUnneeded } = use;
  for (let id = 0; id < keys.length; id++) {
    if (goesNow[id] === 1) {
      keys[id]! += EXPENDABLE;
      keysUnneeded[id]! += EXPENDABLE;
    }
    if (goesAfterUse[id] === 1) keysAfter[id]! += EXPENDABLE;
  }
  return {
    keys,
    keysAfter,
    keysUnneeded,
    loads: Uint32Array.from(loads),
    expendable: EXPENDABLE,
    newestFirst: policy.newestFirst,
  };
}

function likely(need: Float32Array): number[] {
  const indices: number[] = [];
  for (let index = 0; index < need.length; index++) if (need[index]! >= PREFETCH_CHANCE) indices.push(index);
  return indices;
}

function planThisPass({ visits, passVisits, prefetchVisits, residency, policy }: PlanInput): ResidencyPlan {
  const { before, after, unneeded = before } = policy.rank(residency, NOTHING_KNOWN);
  const keys = expendable(before);
  const keysAfter = expendable(after);
  const keysUnneeded = expendable(unneeded);
  const loads = new Set<number>();
  visits.slice(0, passVisits).forEach(({ firstId, need }, time) => {
    for (const index of likely(need)) {
      const id = firstId + index;
      keys[id] = Math.min(keys[id]!, time);
      if (time < prefetchVisits && residency.state[id] !== RESIDENT) loads.add(id);
    }
  });
  const { newestFirst, usesForecast: patient } = policy;
  return {
    keys,
    keysAfter,
    keysUnneeded,
    loads: Uint32Array.from(loads),
    expendable: 0,
    newestFirst,
    patient,
  };
}

function expendable(ranks: Float64Array): Float64Array {
  const keys = new Float64Array(ranks.length);
  for (let id = 0; id < keys.length; id++) keys[id] = EXPENDABLE + ranks[id]!;
  return keys;
}

interface ExpectedUse {
  /** (experts), time of the next use from now on. */
  now: Float64Array;
  /** (experts), time of the next use after the pass, of experts that it used. */
  afterPass: Float64Array;
  /** The same, of experts that it did not use. */
  unneeded: Float64Array;
  /** (visits to prefetch for), (experts per layer), time of the next use after this visit. */
  afterVisit: Float64Array[];
}

function expectedUse({ visits, passVisits, prefetchVisits, residency, policy }: PlanInput): ExpectedUse {
  const {
    before: now,
    after: afterPass,
    unneeded = now.slice(),
  } = policy.rank(residency, {
    count: visits.length,
    own: visits.slice(0, passVisits),
  });
  const afterVisit: Float64Array[] = [];
  for (let time = visits.length - 1; time >= 0; time--) {
    const { firstId, need } = visits[time]!;
    if (time < prefetchVisits) afterVisit[time] = now.slice(firstId, firstId + need.length);
    for (let index = 0; index < need.length; index++) {
      const chance = need[index]!;
      if (chance === 0) continue;
      const id = firstId + index;
      now[id] = chance * time + (1 - chance) * now[id]!;
      if (time < passVisits) continue;
      afterPass[id] = chance * time + (1 - chance) * afterPass[id]!;
      unneeded[id] = chance * time + (1 - chance) * unneeded[id]!;
    }
  }
  return { now, afterPass, unneeded, afterVisit };
}
