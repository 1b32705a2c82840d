/** Calls `pause` about every millisecond of the work that is counted. */

/** Steps between two pauses. A step takes up to a microsecond: a merge, a character of a lattice, a word, a lookup. */
const STEPS = 1024;

export class Pace {
  readonly #pause: () => void;
  #steps = 0;

  constructor(pause: () => void) {
    this.#pause = pause;
  }

  step(): void {
    this.#steps += 1;
    if (this.#steps < STEPS) return;
    this.pause();
  }

  /** After work that is not counted in steps. */
  pause(): void {
    this.#steps = 0;
    this.#pause();
  }
}
