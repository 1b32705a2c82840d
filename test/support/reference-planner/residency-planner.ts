/** Plans the moves for a pass. Pure: the inputs are the forecasts of the pass's table and of the queued tables. */
import { RESIDENT, type Residency, type ResidencyPlan } from '../../../src/native/addon-types.js';
import { type LinkState, leastChance } from './link-state.js';
import { PlanBuffers } from './plan-buffers.js';
import type { PlannedVisit } from './planned-visit.js';
import type { EvictionPolicy, KnownVisits } from './policy.js';
import { GOES_AFTER_USE, GOES_NOW, rehearse } from './rehearsal.js';

export interface PlanInput {
  /** In order of time: the layers of the next pass, then those of later passes. */
  visits: readonly PlannedVisit[];
  /** How many of the visits belong to the pass. */
  passVisits: number;
  /** How many of the visits belong to the pass's batch. */
  batchVisits: number;
  /** How many of the visits may be prefetched for: those of the pass and of the passes soon after it. */
  prefetchVisits: number;
  link: LinkState;
  residency: Residency;
  policy: EvictionPolicy;
}

/** A link of which nothing is known: only needs that are as good as certain are loaded ahead. */
export const UNKNOWN_LINK: LinkState = { busy: 1, stay: Number.POSITIVE_INFINITY };

const NOTHING_KNOWN: KnownVisits = { count: 0, own: [] };

/** Keys of evictable experts start here, above every time in a plan. */
const EXPENDABLE = 2 ** 40;

/**
 * With a forecast, an expert's key is its expected next use, in visits from now:
 * Σ t · P(first needed at t) + P(not needed) · (the policy's estimate beyond the visits).
 * With certain tables this is Belady's rule. A rehearsal of the visits finds the experts that are evicted before that
 * use; only these make room for prefetches. Without a forecast, only the needs of this pass are protected.
 *
 * Loads are the experts whose load pays and that are not resident, or will have been evicted by then, nearest need
 * first. Loads that have begun are listed too, because the store cancels a prefetch that the plan omits. The store
 * starts each load as soon as a slot is free or an expendable expert can be evicted.
 *
 * The plan's arrays are those of `buffers`, which the next plan overwrites.
 */
export function planResidency(
  input: PlanInput,
  buffers = new PlanBuffers(input.residency.state.length),
): ResidencyPlan {
  const { policy, visits, link } = input;
  const plan =
    policy.usesForecast && visits.length > 0 ? planAhead(input, buffers) : planThisPass(input, buffers);
  // The store chooses their victims, which may be needed soon.
  plan.leastForeseen = leastChance(link, 0);
  return plan;
}

function planAhead(input: PlanInput, buffers: PlanBuffers): ResidencyPlan {
  const { visits, passVisits, batchVisits, prefetchVisits, link, residency, policy } = input;
  const afterVisit = expectedUse(input, buffers);
  const { before: keys, after: keysAfter, unneeded: keysUnneeded } = buffers.ranks;
  const { flags, loads } = rehearse(
    {
      visits: visits.slice(0, prefetchVisits),
      afterVisit,
      passVisits,
      batchVisits,
      layers: layersOf(visits),
      link,
      nextUse: keys,
      residency,
    },
    buffers,
  );
  for (let id = 0; id < keys.length; id++) {
    const goes = flags[id]!;
    if ((goes & GOES_NOW) !== 0) {
      keys[id]! += EXPENDABLE;
      keysUnneeded[id]! += EXPENDABLE;
    }
    if ((goes & GOES_AFTER_USE) !== 0) keysAfter[id]! += EXPENDABLE;
  }
  return { keys, keysAfter, keysUnneeded, loads, expendable: EXPENDABLE, newestFirst: policy.newestFirst };
}

function planThisPass(
  { visits, passVisits, prefetchVisits, link, residency, policy }: PlanInput,
  { ranks, loads }: PlanBuffers,
): ResidencyPlan {
  policy.rank(residency, NOTHING_KNOWN, ranks);
  const { before: keys, after: keysAfter, unneeded: keysUnneeded } = ranks;
  for (const each of [keys, keysAfter, keysUnneeded])
    for (let id = 0; id < each.length; id++) each[id]! += EXPENDABLE;
  const least = leastChance(link, Number.POSITIVE_INFINITY);
  let loaded = 0;
  visits.slice(0, passVisits).forEach(({ ids, chances }, time) => {
    ids.forEach((id, entry) => {
      if (chances[entry]! < least) return;
      keys[id] = Math.min(keys[id]!, time);
      if (time < prefetchVisits && residency.state[id] !== RESIDENT) loads[loaded++] = id;
    });
  });
  const { newestFirst, usesForecast: patient } = policy;
  return {
    keys,
    keysAfter,
    keysUnneeded,
    loads: loads.subarray(0, loaded),
    expendable: 0,
    newestFirst,
    patient,
  };
}

function layersOf(visits: readonly PlannedVisit[]): number {
  const seen = new Set<number>();
  for (const { firstId } of visits) seen.add(firstId);
  return seen.size;
}

/**
 * Turns the policy's ranks in the buffers into expected next uses: from now on (`before`), and after the pass of
 * experts that it used (`after`) or did not (`unneeded`). Returns those after each visit to prefetch for, entry by
 * entry.
 */
function expectedUse(
  { visits, passVisits, prefetchVisits, residency, policy }: PlanInput,
  buffers: PlanBuffers,
): Float64Array {
  const { before: now, after, unneeded } = buffers.ranks;
  policy.rank(residency, { count: visits.length, own: visits.slice(0, passVisits) }, buffers.ranks);
  let entries = 0;
  for (let time = 0; time < Math.min(prefetchVisits, visits.length); time++)
    entries += visits[time]!.ids.length;
  const afterVisit = buffers.afterVisit(entries);
  for (let time = visits.length - 1; time >= 0; time--) {
    const { ids, chances } = visits[time]!;
    const kept = time < prefetchVisits;
    if (kept) entries -= ids.length;
    for (let entry = 0; entry < ids.length; entry++) {
      const id = ids[entry]!;
      const chance = chances[entry]!;
      if (kept) afterVisit[entries + entry] = now[id]!;
      now[id] = chance * time + (1 - chance) * now[id]!;
      if (time < passVisits) continue;
      after[id] = chance * time + (1 - chance) * after[id]!;
      unneeded[id] = chance * time + (1 - chance) * unneeded[id]!;
    }
  }
  return afterVisit;
}
