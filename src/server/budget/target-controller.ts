/**
 * Finds and keeps the smallest budget that holds a target. Each window of measured times gives one ratio, measured time
 * over target: above 1 the target is missed. A search brackets the budget between one that was too small and one that
 * was enough, and ends when they are close. Nothing changes then until the load does.
 */

/** A search takes a budget whose ratio is at most this. The rest is room for noise. */
const AIM = 0.97;
/** Below this ratio a smaller budget may be enough. */
const SLACK = 0.9;
/** The ratio has changed with the load when it fell below this share of what the search had left. */
const LIGHTER = 0.9;
/** A search ends when the two ends of its bracket are this close. */
const CLOSE = 1.05;
/** Largest steps. A budget shrinks more gently than it grows: too small a budget costs answers their time. */
const GROWS = 2;
const SHRINKS = 1.4;
/**
 * Two windows in a row beyond these ratios are a step of the load. Smaller changes need the mean of several, without
 * the largest and the smallest of them.
 */
const STEP_UP = 1.2;
const STEP_DOWN = 0.75;
/** So many windows; twice as many after each search that took back what the one before it had done. */
const WINDOWS = { least: 5, most: 40 };
/** Windows until a budget that was too small is tried again, because the load may have changed unseen; then doubled. */
const RETRY = { first: 120, most: 2000 };

/** What the budget may be, in bytes. */
export interface BudgetRange {
  least: number;
  most: number;
}

export class TargetController {
  #budget: number;
  #searches = true;
  #tooSmall: number | undefined;
  #enough: number | undefined;
  /** Logarithm of the last step, which the next one in the same direction doubles. Negative when shrinking. */
  #step = 0;
  /** The last ratios since the search ended. */
  #recent: number[] = [];
  /** Mean of the first ratios after the search. */
  #left: number | undefined;
  #age = 0;
  #windows = WINDOWS.least;
  /** Budget that the last search ended with, and how it differed from the one before: 1, 0 or -1. */
  #settled = 0;
  #moved = 0;
  #retry = RETRY.first;
  /** The budget from which a smaller one is tried again without a sign of a lighter load. */
  #retriedFrom: number | undefined;
  #unmet = false;

  constructor(budget: number) {
    this.#budget = budget;
  }

  /** Whether even the largest budget misses the target. */
  get unmet(): boolean {
    return this.#unmet;
  }

  /** The budget after a window with this ratio. */
  next(ratio: number, range: BudgetRange): number {
    const within = Math.min(range.most, Math.max(range.least, this.#budget));
    if (within !== this.#budget) {
      // The window was measured with a budget that the controller did not choose.
      this.#budget = within;
      this.#search();
    } else if (this.#searches) this.#narrow(ratio, range);
    else this.#watch(ratio, range);
    return this.#budget;
  }

  #search(): void {
    this.#searches = true;
    this.#tooSmall = this.#enough = undefined;
    this.#step = 0;
  }

  #watch(ratio: number, range: BudgetRange): void {
    this.#recent = [...this.#recent, ratio].slice(-this.#windows);
    this.#age += 1;
    const middle = [...this.#recent].sort((a, b) => a - b).slice(1, -1);
    const mean = middle.length === 0 ? ratio : middle.reduce((sum, each) => sum + each, 0) / middle.length;
    const full = this.#recent.length === this.#windows;
    if (full) this.#left ??= mean;
    const pair = this.#recent.slice(-2);
    const both = (holds: (each: number) => boolean) => pair.length === 2 && pair.every(holds);
    const heavier = both((each) => each >= STEP_UP);
    if (heavier || (full && mean > 1)) {
      this.#unmet = this.#budget >= range.most;
      if (this.#unmet) return;
      if (heavier) this.#windows = WINDOWS.least;
      this.#search();
      this.#narrow(heavier ? ratio : mean, range);
      return;
    }
    if (mean <= 1) this.#unmet = false;
    if (this.#budget <= range.least) return;
    const lighter = mean < LIGHTER * (this.#left ?? 0);
    const stepped = both((each) => each <= STEP_DOWN) && lighter;
    const again = this.#age > this.#retry;
    if (!stepped && !(full && mean < SLACK && (lighter || again))) return;
    if (again && !lighter) this.#retriedFrom = this.#budget;
    if (stepped) this.#windows = WINDOWS.least;
    this.#search();
    this.#narrow(stepped ? ratio : mean, range);
  }

  #narrow(ratio: number, range: BudgetRange): void {
    const missed = ratio > AIM;
    if (missed) {
      this.#tooSmall = this.#budget;
      if (this.#enough !== undefined && this.#enough <= this.#budget) this.#enough = undefined;
      if (this.#budget >= range.most) {
        this.#settle(range.most, ratio > 1);
        return;
      }
      const step = Math.max(Math.log(ratio), Math.log(CLOSE), 2 * this.#step);
      this.#step = Math.min(step, Math.log(GROWS));
    } else {
      this.#enough = this.#budget;
      if (this.#tooSmall !== undefined && this.#tooSmall >= this.#budget) this.#tooSmall = undefined;
      const step = Math.max(-Math.log(ratio), Math.log(CLOSE), -2 * this.#step);
      this.#step = -Math.min(step, Math.log(SHRINKS));
    }
    const [low, high] = [this.#tooSmall, this.#enough];
    if (high !== undefined && (high <= range.least || high <= (low ?? 0) * CLOSE)) {
      this.#settle(high);
      return;
    }
    let next = Math.min(range.most, Math.max(range.least, this.#budget * Math.exp(this.#step)));
    if (low !== undefined && high !== undefined) {
      const middle = Math.sqrt(low * high);
      next = missed ? Math.min(next, middle) : Math.max(next, middle);
    }
    this.#budget = Math.round(next);
  }

  #settle(budget: number, unmet = false): void {
    this.#budget = budget;
    this.#searches = false;
    this.#unmet = unmet;
    const inVain = this.#retriedFrom !== undefined && budget * CLOSE >= this.#retriedFrom;
    this.#retry = inVain ? Math.min(2 * this.#retry, RETRY.most) : RETRY.first;
    this.#retriedFrom = undefined;
    const moved = Math.sign(budget - this.#settled);
    if (this.#settled !== 0 && moved !== this.#moved)
      this.#windows = Math.min(2 * this.#windows, WINDOWS.most);
    this.#settled = budget;
    this.#moved = moved;
    this.#recent = [];
    this.#left = undefined;
    this.#age = 0;
  }
}
