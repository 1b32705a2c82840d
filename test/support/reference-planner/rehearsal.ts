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
import { ABSENT, LOADING, type Residency } from '../../../src/native/addon-types.js';
import { type LinkState, leastChance } from './link-state.js';
import { PlanBuffers } from './plan-buffers.js';
import type { PlannedVisit } from './planned-visit.js';

interface RehearsalInput {
  visits: readonly PlannedVisit[];
  /** (entries of the visits, one after the other), expected next use after the visit of the layer. */
  afterVisit: Float64Array;
  /** How many of the visits belong to the pass. */
  passVisits: number;
  /** How many belong to the pass and the later passes of its batch. A new round of the layers begins after them. */
  batchVisits: number;
  /** MoE layers in a round. */
  layers: number;
  link: LinkState;
  /** (experts), expected next use from now. */
  nextUse: Float64Array;
  residency: Residency;
}

interface Rehearsal {
  /** (experts): GOES_NOW and GOES_AFTER_USE. */
  flags: Uint8Array;
  /** Flat ids in the order of their first load. Loads already under way are listed at the visit that needs them. */
  loads: Uint32Array;
}

/** The expert is evicted before its next use, so that it may be evicted at once. */
export const GOES_NOW = 1;
/** The expert is evicted between its use by the pass, if there is one, and the next use. */
export const GOES_AFTER_USE = 2;
const USED_BY_PASS = 4;
const LISTED = 8;
const HELD = 16;
const PINNED = 32;

const NEVER = -1;
/** From this chance on a resident expert counts as used by the visit. */
const LIKELY = 0.5;

export function rehearse(input: RehearsalInput, buffers = new PlanBuffers(input.nextUse.length)): Rehearsal {
  const { visits, afterVisit, passVisits, residency, link } = input;
  const { state, pinned, freeSlots } = residency;
  const { usedAt, flags, nextUse, loads } = buffers;
  const experts = state.length;
  const least = leastChance(link, Number.POSITIVE_INFINITY);
  const held = new HeldExperts(input, buffers);
  usedAt.fill(NEVER);
  nextUse.set(input.nextUse);
  let free = freeSlots;
  let loaded = 0;

  for (let id = 0; id < experts; id++) {
    flags[id] = state[id] === ABSENT ? 0 : pinned[id] === 0 ? HELD : PINNED;
  }
  const list = (id: number) => {
    if ((flags[id]! & LISTED) !== 0) return;
    flags[id]! |= LISTED;
    loads[loaded++] = id;
  };
  let first = 0;
  for (let time = 0; time < visits.length; time++) {
    const { ids, chances } = visits[time]!;
    // Resident experts compute first, and each may be evicted once it has computed.
    for (let entry = 0; entry < ids.length; entry++) {
      const id = ids[entry]!;
      const likely = chances[entry]! >= LIKELY;
      if (likely && time < passVisits) flags[id]! |= USED_BY_PASS;
      nextUse[id] = afterVisit[first + entry]!;
      if ((flags[id]! & (HELD | PINNED)) === 0) continue;
      if (likely) usedAt[id] = time;
      if (state[id] === LOADING && chances[entry]! >= least) list(id);
      held.update(id);
    }
    for (let entry = 0; entry < ids.length; entry++) {
      const id = ids[entry]!;
      const chance = chances[entry]!;
      if (chance < least || (flags[id]! & (HELD | PINNED)) !== 0) continue;
      if (free > 0) {
        free -= 1;
      } else {
        const victim = held.next();
        if (victim === undefined) {
          if (chance < LIKELY) continue;
        } else {
          if (chance < leastChance(link, nextUse[victim]! - time)) continue;
          held.evict(victim);
          const used = usedAt[victim]!;
          if (used === NEVER) flags[victim]! |= GOES_NOW;
          else if (used < passVisits) flags[victim]! |= GOES_AFTER_USE;
        }
      }
      usedAt[id] = time;
      held.add(id);
      list(id);
    }
    first += ids.length;
  }
  // The expert may already have been used by the pass.
  for (let id = 0; id < experts; id++) {
    if ((flags[id]! & (GOES_NOW | USED_BY_PASS)) === GOES_NOW) flags[id]! |= GOES_AFTER_USE;
  }
  return { flags, loads: loads.subarray(0, loaded) };
}

/** The experts that may be evicted. The heap has an entry for each rank that an expert has had. */
class HeldExperts {
  readonly #input: RehearsalInput;
  readonly #buffers: PlanBuffers;
  /** Whether the heap is filled, which is left until an expert must be evicted. */
  #filled = false;

  constructor(input: RehearsalInput, buffers: PlanBuffers) {
    this.#input = input;
    this.#buffers = buffers;
    buffers.heap.clear();
  }

  add(id: number): void {
    this.#buffers.flags[id]! |= HELD;
    if (this.#filled) this.#push(id);
  }

  /** Its next use, or when it was last used, has changed. */
  update(id: number): void {
    if (this.#filled && (this.#buffers.flags[id]! & HELD) !== 0) this.#push(id);
  }

  next(): number | undefined {
    const { flags, heap, rank } = this.#buffers;
    if (!this.#filled) {
      this.#filled = true;
      for (let id = 0; id < flags.length; id++) if ((flags[id]! & HELD) !== 0) this.#push(id);
    }
    while (heap.size > 0) {
      const id = heap.topId;
      if ((flags[id]! & HELD) !== 0 && rank[id] === heap.topRank) return id;
      heap.pop();
    }
    return undefined;
  }

  evict(id: number): void {
    this.#buffers.flags[id]! &= ~HELD;
    this.#buffers.heap.pop();
  }

  #push(id: number): void {
    const { heap, rank, nextUse, usedAt } = this.#buffers;
    rank[id] = rankOf(this.#input, nextUse[id]!, usedAt[id]!);
    heap.push(id, rank[id]!);
  }
}

/**
 * The expert with the largest rank is evicted first: the one that is needed last. Experts needed in the same round of
 * a later batch cost the same to reload. Among them, the one that has been evictable for longest goes first, so that
 * a prefetch need not wait.
 */
function rankOf({ visits, batchVisits, layers }: RehearsalInput, nextUse: number, usedAt: number): number {
  if (nextUse < batchVisits) return nextUse;
  const round = Math.floor((nextUse - batchVisits) / layers);
  // Below 1, so that it orders experts only within a round.
  const free = (visits.length - usedAt + nextUse / (nextUse + 1)) / (visits.length + 2);
  return batchVisits + layers * round + layers * free;
}
