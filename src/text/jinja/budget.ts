/** What rendering a template may cost. Templates come with models, which are untrusted. */

export interface RenderBounds {
  /** Statements and expressions to evaluate, all repetitions counted. */
  steps: number;
  /** Length of a text or a list, and of the result. */
  length: number;
  /** Length of all texts and lists that are made, read or compared, which bounds memory and time. */
  total: number;
}

export class Budget {
  readonly #bounds: RenderBounds;
  #steps = 0;
  #total = 0;

  constructor(bounds: RenderBounds) {
    this.#bounds = bounds;
  }

  step(): void {
    this.#steps += 1;
    if (this.#steps > this.#bounds.steps) throw new Error(`it takes more than ${this.#bounds.steps} steps`);
  }

  /** Counts a text or a list before it is made. */
  make(length: number): void {
    this.fits(length);
    this.work(length);
  }

  fits(length: number): void {
    // Also refuses what is no number.
    if (!(length <= this.#bounds.length))
      throw new Error(`it makes a text or a list longer than ${this.#bounds.length}`);
  }

  /** Counts what is read or compared. */
  work(length: number): void {
    this.#total += Math.max(0, length) + 1;
    if (this.#total > this.#bounds.total)
      throw new Error(`it makes texts and lists longer than ${this.#bounds.total} together`);
  }
}
