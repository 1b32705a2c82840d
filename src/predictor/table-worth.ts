/**
 * Whether a hash table is worth its time: the one rule for all that build tables or wait for them.
 *
 * A table saves its pass some waiting for experts, and that is a part of the pass at most. So a table may hold its pass up
 * for a fixed share of the time that such passes usually take. One that takes longer, that comes too late or that says
 * nothing is lost. After several losses in a row tables are not built for a while: each pause is a multiple of what the
 * last table took, and doubles while tables go on being lost. One table of use ends that.
 *
 * Whatever a predictor does, it costs a pass at most the share, and a builder 1 / (1 + PAUSE) of its time.
 */

/** Of a pass's usual time. What a table is going to save is not known beforehand; so much is lost by one that saves nothing. */
const SHARE = 0.2;
/** Weight of the latest pass in the usual one: about ten passes, so that a burst of short ones shows and one alone does not. */
const LATEST = 0.1;
/** Taken for the usual pass until one has run: between those of small models and those that wait for a disk. */
const FIRST_PASS_MS = 50;
/** Losses in a row before the first pause: a table now and then is late by chance alone. */
const LOSSES = 8;
/** Time lost in a row before the first pause: of a slow predictor one table can be too many. */
const LOSSES_MS = 100;
/** Least pause, in times of the last table. */
const PAUSE = 16;
/** A pause doubles this often at most: tables of 10 ms are tried again every 10 s. */
const DOUBLINGS = 6;

export class TableWorth {
  readonly #clock: () => number;
  #usualPassMs = FIRST_PASS_MS;
  #passes = 0;
  #losses = 0;
  #lostMs = 0;
  #pauses = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  /** `clock`: milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /** A pass that tables are for took so long. */
  passTook(ms: number): void {
    this.#usualPassMs = this.#passes === 0 ? ms : this.#usualPassMs * (1 - LATEST) + ms * LATEST;
    this.#passes += 1;
  }

  /** Longest time that a table may hold up its pass. */
  get limitMs(): number {
    return this.#usualPassMs * SHARE;
  }

  /** Whether tables are not to be built at present. */
  get paused(): boolean {
    return this.#clock() < this.#pausedUntil;
  }

  /** A table was built while its pass waited, and is of use where that was within the limit. */
  heldUp(ms: number): void {
    if (ms <= this.limitMs) this.kept();
    else this.lost(ms);
  }

  /** A table was of use. */
  kept(): void {
    this.#losses = 0;
    this.#lostMs = 0;
    this.#pauses = 0;
  }

  /** A table was built in vain. */
  lost(tookMs: number): void {
    this.#losses += 1;
    this.#lostMs += tookMs;
    if (this.#losses < LOSSES && this.#lostMs < LOSSES_MS) return;
    this.#pausedUntil = this.#clock() + tookMs * PAUSE * 2 ** this.#pauses;
    this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
  }
}
