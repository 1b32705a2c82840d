/** When to stop building tables that nobody can use, and for how long. */

/** So many useless tables in a row, or so long over them, and the next ones are not even begun. */
const TABLES = 8;
const TABLES_MS = 100;
/** Least pause, as a multiple of the time the last table took: bounds what building in vain can cost. */
const PAUSE = 16;
/** A pause doubles this often at most. */
const DOUBLINGS = 6;

export class BuildBackOff {
  readonly #clock: () => number;
  #lostInARow = 0;
  #lostMs = 0;
  #pauses = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  /** `clock`: milliseconds. */
  constructor(clock: () => number = () => performance.now()) {
    this.#clock = clock;
  }

  get paused(): boolean {
    return this.#clock() < this.#pausedUntil;
  }

  /** A table was of use. */
  kept(): void {
    this.#lostInARow = 0;
    this.#lostMs = 0;
    this.#pauses = 0;
  }

  /** A table was built in vain. */
  lost(tookMs: number): void {
    this.#lostInARow += 1;
    this.#lostMs += tookMs;
    if (this.#lostInARow < TABLES && this.#lostMs < TABLES_MS) return;
    this.#pausedUntil = this.#clock() + tookMs * PAUSE * 2 ** this.#pauses;
    this.#pauses = Math.min(this.#pauses + 1, DOUBLINGS);
  }
}
