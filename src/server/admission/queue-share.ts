/**
 * A caller may hold as many places of the queue as are free. One caller alone fills half of it, two fill a third each,
 * so a later caller finds room. (Choudhury and Hahne's dynamic thresholds, 1998, for buffers of switches.)
 */
export class QueueShare {
  readonly #bound: number;
  /** Requests of each caller that wait or run. */
  readonly #held = new Map<string, number>();

  constructor(bound: number) {
    this.#bound = bound;
  }

  /**
   * Returns a function that gives the place back, or undefined when the caller holds its share. `waiting`: requests
   * of all callers.
   */
  take(who: string, waiting: number): (() => void) | undefined {
    const held = this.#held.get(who) ?? 0;
    if (waiting > 0 && held >= Math.max(1, this.#bound - waiting)) return undefined;
    this.#held.set(who, held + 1);
    let taken = true;
    return () => {
      if (!taken) return;
      taken = false;
      const left = this.#held.get(who)! - 1;
      if (left === 0) this.#held.delete(who);
      else this.#held.set(who, left);
    };
  }
}
