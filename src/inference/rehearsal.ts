/**
 * Rehearses the coming visits under Belady's rule (MIN; Belady 1966). The rehearsal finds which experts will be
 * evicted, and from when on each may be evicted. Prefetches that evict only those experts move the same bytes as
 * Belady's rule, as early as it allows ("do no harm": Cao et al., "A Study of Integrated Prefetching and Caching
 * Strategies", 1995).
 *
 * The rehearsal is a plan and does not replace the store. Its keys change after every visit, while the store's keys
 * hold for a whole pass. It may evict an expert within the visit that used it. Its result is when each expert is
 * evicted. Running the native store with new keys before each visit would take 1.5 to 6 times as long, in every pass.
 */
import { ABSENT, LOADING, type Residency } from '../native/addon-types.js';

export interface RehearsedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** Indices of the experts that the layer is expected to need. */
  needed: readonly number[];
  /** (experts per layer), expected next use after this visit of the layer. */
  nextUse: Float64Array;
}

interface RehearsalInput {
  visits: readonly RehearsedVisit[];
  /** How many of the visits belong to the pass. */
  passVisits: number;
  /** How many belong to the pass and the later passes of its batch. A new round of the layers begins after them. */
  batchVisits: number;
  /** MoE layers in a round. */
  layers: number;
  /** Whether an extra load costs less than a late one. */
  spareLink: boolean;
  /** (experts), expected next use from now. */
  nextUse: Float64Array;
  residency: Residency;
}

interface Rehearsal {
  /** (experts), 1 if the expert is evicted before its next use, so that it may be evicted at once. */
  goesNow: Uint8Array;
  /** (experts), 1 if the expert is evicted between its use by the pass, if there is one, and the next use. */
  goesAfterUse: Uint8Array;
  /** Flat ids in the order of their first load. Loads already under way are listed at the visit that needs them. */
  loads: number[];
}

const NEVER = -1;

export function rehearse(input: RehearsalInput): Rehearsal {
  const { visits, passVisits, residency, nextUse } = input;
  const { state, pinned, freeSlots } = residency;
  const experts = state.length;
  const usedAt = new Int32Array(experts).fill(NEVER);
  const usedByPass = new Uint8Array(experts);
  const goesNow = new Uint8Array(experts);
  const goesAfterUse = new Uint8Array(experts);
  const loads = new Set<number>();
  const held = new HeldExperts(input);
  let free = freeSlots;

  for (let id = 0; id < experts; id++) {
    if (state[id] !== ABSENT) held.add(id, pinned[id] !== 0, nextUse[id]!, NEVER);
  }
  const evict = () => {
    const victim = held.evict();
    if (victim === undefined) return;
    const used = usedAt[victim]!;
    if (used === NEVER) goesNow[victim] = 1;
    else if (used < passVisits) goesAfterUse[victim] = 1;
  };
  for (let time = 0; time < visits.length; time++) {
    const { firstId, needed, nextUse: after } = visits[time]!;
    for (const index of needed) {
      const id = firstId + index;
      if (time < passVisits) usedByPass[id] = 1;
      if (!held.has(id)) continue;
      usedAt[id] = time;
      if (state[id] === LOADING) loads.add(id);
    }
    // Resident experts compute first, and each may be evicted once it has computed.
    for (let index = 0; index < after.length; index++) {
      const id = firstId + index;
      if (held.has(id)) held.update(id, after[index]!, usedAt[id]!);
    }
    for (const index of needed) {
      const id = firstId + index;
      if (held.has(id)) continue;
      if (free > 0) free -= 1;
      else evict();
      usedAt[id] = time;
      held.add(id, false, after[index]!, time);
      loads.add(id);
    }
  }
  // The expert may already have been used by the pass.
  for (let id = 0; id < experts; id++) if (goesNow[id] === 1 && usedByPass[id] === 0) goesAfterUse[id] = 1;
  return { goesNow, goesAfterUse, loads: [...loads] };
}

const NOT_HELD = -1;
const PINNED = -2;

/** Keeps the evictable experts contiguous, because the search for a victim dominates the cost of a rehearsal. */
class HeldExperts {
  readonly #input: RehearsalInput;
  /** By flat id: the expert's index in `#ids`, or NOT_HELD or PINNED. */
  readonly #at: Int32Array;
  readonly #ids: Int32Array;
  readonly #ranks: Float64Array;
  #count = 0;

  constructor(input: RehearsalInput) {
    const experts = input.nextUse.length;
    this.#input = input;
    this.#at = new Int32Array(experts).fill(NOT_HELD);
    this.#ids = new Int32Array(experts);
    this.#ranks = new Float64Array(experts);
  }

  has(id: number): boolean {
    return this.#at[id] !== NOT_HELD;
  }

  add(id: number, pinned: boolean, nextUse: number, usedAt: number): void {
    this.#at[id] = pinned ? PINNED : this.#count;
    if (pinned) return;
    this.#ids[this.#count++] = id;
    this.update(id, nextUse, usedAt);
  }

  update(id: number, nextUse: number, usedAt: number): void {
    const at = this.#at[id]!;
    if (at !== PINNED) this.#ranks[at] = rankOf(this.#input, nextUse, usedAt);
  }

  evict(): number | undefined {
    if (this.#count === 0) return undefined;
    const [ids, ranks] = [this.#ids, this.#ranks];
    let first = 0;
    for (let at = 1; at < this.#count; at++) if (ranks[at]! > ranks[first]!) first = at;
    const victim = ids[first]!;
    const last = --this.#count;
    ids[first] = ids[last]!;
    ranks[first] = ranks[last]!;
    this.#at[ids[first]!] = first;
    this.#at[victim] = NOT_HELD;
    return victim;
  }
}

/**
 * The expert with the largest rank is evicted first: the one that is needed last. Experts needed in the same round of
 * a later batch cost the same to reload. Among them, the one that has been evictable for longest goes first, so that
 * a prefetch need not wait. If the link has spare time, this applies to all experts that the batch does not need.
 */
function rankOf(
  { visits, batchVisits, layers, spareLink }: RehearsalInput,
  nextUse: number,
  usedAt: number,
): number {
  if (nextUse < batchVisits) return nextUse;
  const round = spareLink ? 0 : Math.floor((nextUse - batchVisits) / layers);
  // Below 1, so that it orders experts only within a round.
  const free = (visits.length - usedAt + nextUse / (nextUse + 1)) / (visits.length + 2);
  return batchVisits + layers * (round + free);
}
