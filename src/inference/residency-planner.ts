/** What to move for a batch: pure, from the table of the batch and the tables queued behind it. */
import type { Residency, ResidencyPlan } from '../native/addon-types.js';
import { type HashTable, NO_EXPERT, TABLE_UNKNOWN } from '../predictor/hash-table.js';
import type { EvictionPolicy } from './eviction/index.js';

export interface PlanInput {
  /** The table of the batch about to run. */
  table: HashTable;
  /** Tables of the batches behind it, next first. */
  upcoming: readonly HashTable[];
  residency: Residency;
  /** Experts in one MoE layer: what turns a table's entry into a flat id. */
  expertsPerLayer: number;
  policy: EvictionPolicy;
}

const ABSENT = 0;

/**
 * Loads: the absent experts that the table names, in layer order, at most as many as slots that the batch itself
 * leaves. Victims: the policy's ranking without what the batch needs, what the upcoming tables name last. An unknown
 * table plans nothing: experts are fetched on demand and the engine asks the policy at each miss.
 */
export function planResidency(input: PlanInput): ResidencyPlan {
  const { table, upcoming, residency, policy } = input;
  if (table.kind === TABLE_UNKNOWN) return { loads: new Uint32Array(), victims: new Uint32Array() };
  const needed = namedExperts(table, input.expertsPerLayer);
  const held = [...needed].filter((id) => residency.state[id] !== ABSENT).length;
  const pinnedElsewhere = residency.pinned.filter((pinned, id) => pinned !== 0 && !needed.has(id)).length;
  const room = Math.max(0, residency.slots - held - pinnedElsewhere);
  const loads = [...needed].filter((id) => residency.state[id] === ABSENT).slice(0, room);
  const soon = new Set<number>();
  for (const next of upcoming) {
    for (const id of namedExperts(next, input.expertsPerLayer)) soon.add(id);
  }
  const spare = [...policy(residency)].filter((id) => !needed.has(id));
  const victims = [...spare.filter((id) => !soon.has(id)), ...spare.filter((id) => soon.has(id))];
  return { loads: Uint32Array.from(loads), victims: Uint32Array.from(victims) };
}

/** Flat ids in the order in which the layers need them, most likely entries of a layer first. */
function namedExperts(table: HashTable, expertsPerLayer: number): Set<number> {
  const named = new Set<number>();
  const { layers, tokens, k, experts } = table;
  for (let layer = 0; layer < layers; layer++) {
    for (let rank = 0; rank < k; rank++) {
      for (let token = 0; token < tokens; token++) {
        const index = experts[(layer * tokens + token) * k + rank]!;
        if (index !== NO_EXPERT) named.add(layer * expertsPerLayer + index);
      }
    }
  }
  return named;
}
