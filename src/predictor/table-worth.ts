/**
 * Decides whether a hash table is worth its time. Every part that builds tables or waits for them uses this rule.
 *
 * A table saves its pass a wait for experts, and that wait is at most a part of the pass. A table may therefore delay
 * its pass by a fixed share of the usual pass time: WAIT while another thread builds it, BUILD when the thread of the
 * pass builds it. A table that takes longer, arrives too late or predicts nothing is lost. After several losses in a
 * row, no tables are built for a while. Each pause is a multiple of the time that
 * the last table took. Pauses double while losses continue; one useful table resets them.
 *
 * Waiting for a table thus costs a pass at most WAIT, and tables that are always lost take at most 1 / (1 +
 * PAUSE) of the building thread's time.
 */

/** Longest wait, as a share of the usual pass time. The waiting thread is idle, and the table may still fail. */
const WAIT = 0.1;
/** Longest time of building, as a share of the usual pass time. It bounds the cost of a table that saves nothing. */
const BUILD = 0.2;
/** Weight of the latest pass in the moving average. It spans about ten passes, so that one outlier counts little. */
const LATEST = 0.1;
/** Assumed pass time before the first pass: between those of small models and those that wait for a disk. */
const FIRST_PASS_MS = 100;
/** Losses in a row before the first pause. A single table can be late by chance. */
const LOSSES = 8;
/** Time lost in a row before the first pause. A single table of a slow predictor can be too expensive. */
const LOSSES_MS = 100;
/** Shortest pause, as a multiple of the last table's time. */
const PAUSE = 16;
/** Most doublings of a pause: tables of 10 ms are retried about every 10 s. */
const DOUBLINGS = 6;
/** Upper bound of a doubled pause. One expensive table says little about later requests. */
const LONGEST_MS = 60_000;

export class TableWorth {
  readonly #clock: () => number;
  #usualPassMs = FIRST_PASS_MS;
  #passes = 0;
  #losses = 0;
  #lostMs = 0;
  #pauses = 0;
  #pausedUntil = 0;

  /** `clock` returns milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** Records the duration of a pass that tables are built for. */
  passTook(ms: number): void {
    this.#usualPassMs = this.#passes === 0 ? ms : this.#usualPassMs * (1 - LATEST) + ms * LATEST;
    this.#passes += 1;
  }

  /** Longest wait for a table that another thread builds. */
  get waitMs(): number {
    return this.#usualPassMs * WAIT;
  }

  /** By the clock: no tables are built before. */
  get pausedUntilMs(): number {
    return this.#pausedUntil;
  }

  /** Whether table building is paused. */
  get paused(): boolean {
    return this.#clock() < this.#pausedUntil;
  }

  /** Records that building a table delayed its pass by `ms`. */
  delayedPass(ms: number): void {
    if (ms <= this.#usualPassMs * BUILD) this.kept();
    else this.lost(ms);
  }

  /** Records a useful table. */
  kept(): void {
    this.#losses = 0;
    this.#lostMs = 0;
    this.#pauses = 0;
  }

  /** Records a table that was built in vain. */
  lost(tookMs: number): void {
    this.#losses += 1;
    this.#lostMs += tookMs;
    if (this.#losses < LOSSES && this.#lostMs < LOSSES_MS) return;
    const shortest = tookMs * PAUSE;
    const pause = Math.max(shortest, Math.min(shortest * 2 ** this.#pauses, LONGEST_MS));
    this.#pausedUntil = this.#clock() + pause;
    this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
  }
}
