/** How much of the budget may be held while the machine or its cgroup runs short of memory. Called once a second. */
import type { BudgetRange } from './target-controller.js';

const MIB = 1024 ** 2;
/** Memory is short below `low`. It is given back until `high` is free, which --memory-budget auto leaves free too. */
const FREE = { low: 256 * MIB, high: 512 * MIB };
/** Percent of the last ten seconds in which a task waited for memory (PSI, some): short, and at ease. */
const STALLED = { short: 10, ease: 1 };
/** Share of the largest budget that one step takes at most, and that a stall without a shortage gives back. */
const STEP = 0.05;
/** Seconds at ease before the first step up, and between two. */
const EASE = { first: 10, next: 2 };

/** `stalled` is 0 where the kernel does not tell. */
export interface MemoryNow {
  freeBytes: number;
  stalled: number;
}

export class PressurePolicy {
  /** Infinite while memory is not short. */
  #ceiling = Number.POSITIVE_INFINITY;
  #ease = 0;
  readonly #models: number;

  /** Each of `models` gives and takes its share of what is short or free. */
  constructor(models = 1) {
    this.#models = models;
  }

  /** The largest budget that may be held now, where `budget` is held. */
  ceiling({ freeBytes, stalled }: MemoryNow, budget: number, { least, most }: BudgetRange): number {
    const step = Math.ceil(STEP * most);
    if (freeBytes < FREE.low || stalled >= STALLED.short) {
      const give = Math.max((FREE.high - freeBytes) / this.#models, step);
      this.#ceiling = Math.max(least, Math.min(this.#ceiling, budget) - give);
      this.#ease = 0;
    } else if (this.#ceiling < most) {
      const spare = (freeBytes - FREE.high) / this.#models;
      this.#ease = spare > step && stalled < STALLED.ease ? this.#ease + 1 : 0;
      if (this.#ease >= EASE.first) {
        this.#ceiling += Math.min(spare, step);
        this.#ease = EASE.first - EASE.next;
      }
    } else this.#ceiling = Number.POSITIVE_INFINITY;
    return this.#ceiling;
  }
}
