/** Whether tables are believed: not while most of what they made prefetch was evicted unused. */
import type { RunStats } from '../native/addon-types.js';

/** Prefetches, without those taken back in time, that are enough to judge by. */
const EVIDENCE = 64;
/** Share of them that may be wasted. */
const WASTE = 2 / 3;
/** Passes without tables before they are tried again; doubles with each time they fail. */
const PAUSE = 64;
const DOUBLINGS = 6;

type Prefetches = Pick<RunStats, 'prefetchesBegun' | 'prefetchesCancelled' | 'prefetchesWasted'>;

export class PrefetchTrust {
  #made = 0;
  #wasted = 0;
  #pauses = 0;
  #pause = 0;
  #distrusted = 0;

  get trusts(): boolean {
    return this.#pause === 0;
  }

  /** Passes run without tables for want of trust. */
  get distrusted(): number {
    return this.#distrusted;
  }

  /** After each pass. */
  judge({ prefetchesBegun, prefetchesCancelled, prefetchesWasted }: Prefetches): void {
    if (this.#pause > 0) {
      this.#pause -= 1;
      this.#distrusted += 1;
      return;
    }
    this.#made += prefetchesBegun - prefetchesCancelled;
    this.#wasted += prefetchesWasted;
    if (this.#made < EVIDENCE) return;
    if (this.#wasted > this.#made * WASTE) {
      this.#pause = PAUSE * 2 ** this.#pauses;
      this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
    } else {
      this.#pauses = 0;
    }
    this.#made = 0;
    this.#wasted = 0;
  }
}
