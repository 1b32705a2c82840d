/**
 * Whether a hash table is worth its time: the one rule for all that build tables or wait for them.
 *
 * A table saves its pass a wait for experts, which is a part of the pass at most. So a table may delay its pass
 * by a fixed share of the time that such passes usually take. A table that takes longer, that comes too late or
 * that names nothing is lost. After several losses in a row no tables are built for a while. Each pause is a
 * multiple of the time that the last table took, and doubles while tables go on being lost; one useful table
 * ends that.
 *
 * So a wait for a table costs a pass at most the share, and tables that are always lost take 1 / (1 + PAUSE) of
 * the time of the thread that builds them.
 */

/** Longest delay as a share of a usual pass. It also bounds the cost of a table that saves nothing. */
const SHARE = 0.2;
/** Weight of the latest pass in the usual one: of about the last ten, so that one outlier counts little. */
const LATEST = 0.1;
/** The usual pass before one has run: between those of small models and those that wait for a disk. */
const FIRST_PASS_MS = 50;
/** Losses in a row before the first pause: now and then a table is late by chance. */
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

  /** Longest delay of a pass for its table. */
  get limitMs(): number {
    return this.#usualPassMs * SHARE;
  }

  /** Whether tables are not to be built at present. */
  get paused(): boolean {
    return this.#clock() < this.#pausedUntil;
  }

  /** A table delayed its pass by so much while it was built. */
  delayedPass(ms: number): void {
    if (ms <= this.limitMs) this.kept();
    else this.lost(ms);
  }

  /** A table was useful. */
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
