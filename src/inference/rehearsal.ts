/**
 * Rehearses the visits to come under Belady's rule (MIN; Belady 1966): which experts are going to be evicted,
 * and from when on each may be. Prefetches that evict no others move the bytes of Belady's rule, as early as it
 * allows ("do no harm": Cao et al., "A Study of Integrated Prefetching and Caching Strategies", 1995).
 *
 * This is a plan, not another store. Its keys change after every visit, where the store's hold for a pass; an
 * expert may be evicted within the visit that used it; and the result is when each expert is evicted. The
 * native store, given new keys before each visit, takes 1.5 to 6 times as long for it, in every pass.
 */
import { LOADING, type Residency } from '../native/addon-types.js';

export interface RehearsedVisit {
  /** Flat id of the layer's first expert. */
  firstId: number;
  /** Indices of the experts that the layer is taken to need. */
  needed: readonly number[];
  /** (experts of the layer), expected next use once the layer has had its turn. */
  nextUse: Float64Array;
}

interface RehearsalInput {
  visits: readonly RehearsedVisit[];
  /** How many of them belong to the pass. */
  passVisits: number;
  /** How many belong to the pass and to those behind it in its batch: a round of the layers begins there. */
  batchVisits: number;
  /** MoE layers of a round. */
  layers: number;
  /** Whether a load more costs less than one that comes late. */
  spareLink: boolean;
  /** (experts), expected from now. */
  nextUse: Float64Array;
  residency: Residency;
}

interface Rehearsal {
  /** (experts), 1: evicted before its next use, so it may go at once. */
  goesNow: Uint8Array;
  /** (experts), 1: evicted between its use by the pass, if any is to come, and the next one. */
  goesAfterUse: Uint8Array;
  /** Flat ids in the order they are loaded, once each; those whose load is under way stand where they are needed. */
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
    if (state[id] !== 0) held.add(id, pinned[id] !== 0, nextUse[id]!, NEVER);
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
    // Experts at hand compute first, and each may go once it has computed.
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
  // The pass may have used it already.
  for (let id = 0; id < experts; id++) if (goesNow[id] === 1 && usedByPass[id] === 0) goesAfterUse[id] = 1;
  return { goesNow, goesAfterUse, loads: [...loads] };
}

const ABSENT = -1;
const PINNED = -2;

/** Those that may go lie side by side: the search for a victim is what a rehearsal costs. */
class HeldExperts {
  readonly #input: RehearsalInput;
  /** By flat id: where it lies in `#ids`. */
  readonly #at: Int32Array;
  readonly #ids: Int32Array;
  readonly #ranks: Float64Array;
  #count = 0;

  constructor(input: RehearsalInput) {
    const experts = input.nextUse.length;
    this.#input = input;
    this.#at = new Int32Array(experts).fill(ABSENT);
    this.#ids = new Int32Array(experts);
    this.#ranks = new Float64Array(experts);
  }

  has(id: number): boolean {
    return this.#at[id] !== ABSENT;
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
    this.#at[victim] = ABSENT;
    return victim;
  }
}

/**
 * The expert with the largest rank is evicted first: the one that is needed last. Experts needed in the same round of a
 * later batch cost the same to bring back, so of them the one that has been evictable the longest is first: a prefetch
 * then need not wait. With time to spare on the link, the same holds for all that the batch does not need.
 */
function rankOf(
  { visits, batchVisits, layers, spareLink }: RehearsalInput,
  nextUse: number,
  usedAt: number,
): number {
  if (nextUse < batchVisits) return nextUse;
  const round = spareLink ? 0 : Math.floor((nextUse - batchVisits) / layers);
  // Below 1, so that it decides within a round.
  const free = (visits.length - usedAt + nextUse / (nextUse + 1)) / (visits.length + 2);
  return batchVisits + layers * (round + free);
}
