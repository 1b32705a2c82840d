/** What to move for a pass: pure, from what its table and those queued behind it expect of each expert. */
import { RESIDENT, type Residency, type ResidencyPlan } from '../native/addon-types.js';
import type { ExpectedVisit } from '../predictor/expected-visits.js';
import type { EvictionPolicy } from './eviction/policy.js';
import { rehearse } from './rehearsal.js';

export interface PlanInput {
  /** In order of time: the layers of the pass about to run, then those of the passes behind it. */
  visits: readonly ExpectedVisit[];
  /** How many of them belong to the pass. */
  passVisits: number;
  /** How many of them belong to the pass's batch. */
  batchVisits: number;
  /** How many of them prefetches may be for: the pass's and those soon behind it. */
  prefetchVisits: number;
  /** Whether the link has time for moves beyond the fewest, where they save waiting. */
  spareLink?: boolean;
  residency: Residency;
  policy: EvictionPolicy;
}

/**
 * An expert is prefetched for a layer that needs it with at least this chance: a wrong prefetch costs a move, and what
 * it evicted another.
 */
export const PREFETCH_CHANCE = 0.95;

/** Keys of experts that may be evicted begin here, beyond every time that a plan can name. */
const EXPENDABLE = 2 ** 40;

/**
 * With a forecast an expert's key is its expected next use, in visits from now: Σ t · P(first needed at t) +
 * P(not needed) · (visits + the policy's guess); with certain tables this is Belady's rule. A rehearsal of the
 * visits finds the experts that are evicted before that use. Only these make room for prefetches. Without a
 * forecast only this pass's needs are protected. Loads: experts that are likely needed and not resident, or
 * evicted by then, the nearest first. Loads that have begun are listed too, because a prefetch that no plan
 * names is cancelled. The store begins each as soon as a slot is free or may be taken.
 */
export function planResidency(input: PlanInput): ResidencyPlan {
  return input.policy.usesForecast && input.visits.length > 0 ? planAhead(input) : planThisPass(input);
}

/** Without tables: nothing is prefetched, and the policy chooses the victims. */
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
  const [keys, keysAfter] = [use.now, use.afterPass];
  for (let id = 0; id < keys.length; id++) {
    if (goesNow[id] === 1) keys[id]! += EXPENDABLE;
    if (goesAfterUse[id] === 1) keysAfter[id]! += EXPENDABLE;
  }
  return {
    keys,
    keysAfter,
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
  const { before, after } = policy.rank(residency);
  const keys = before.map((rank) => EXPENDABLE + rank);
  const keysAfter = after.map((rank) => EXPENDABLE + rank);
  const loads = new Set<number>();
  visits.slice(0, passVisits).forEach(({ firstId, need }, time) => {
    for (const index of likely(need)) {
      const id = firstId + index;
      keys[id] = Math.min(keys[id]!, time);
      if (time < prefetchVisits && residency.state[id] !== RESIDENT) loads.add(id);
    }
  });
  return { keys, keysAfter, loads: Uint32Array.from(loads), expendable: 0, newestFirst: policy.newestFirst };
}

interface ExpectedUse {
  /** (experts), time of the next use from now on. */
  now: Float64Array;
  /** (experts), once the pass has run. */
  afterPass: Float64Array;
  /** (visits to prefetch for), (experts of the layer), once the layer has had this turn. */
  afterVisit: Float64Array[];
}

function expectedUse({ visits, passVisits, prefetchVisits, residency, policy }: PlanInput): ExpectedUse {
  // The guesses are in visits beyond the last one.
  const { before: now, after: later } = policy.rank(residency);
  for (let id = 0; id < now.length; id++) {
    now[id]! += visits.length;
    later[id]! += visits.length;
  }
  const afterVisit: Float64Array[] = [];
  let afterPass = passVisits >= visits.length ? later.slice() : later;
  for (let time = visits.length - 1; time >= 0; time--) {
    const { firstId, need } = visits[time]!;
    if (time < prefetchVisits) afterVisit[time] = later.slice(firstId, firstId + need.length);
    for (let index = 0; index < need.length; index++) {
      const chance = need[index]!;
      if (chance === 0) continue;
      const id = firstId + index;
      now[id] = chance * time + (1 - chance) * now[id]!;
      later[id] = chance * time + (1 - chance) * later[id]!;
    }
    if (time === passVisits) afterPass = later.slice();
  }
  return { now, afterPass, afterVisit };
}
