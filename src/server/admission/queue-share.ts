/**
 * A caller may hold as many places of the queue as are free. One caller alone fills half of the queue and two fill a
 * third each, so a later caller always finds room. These are the dynamic thresholds that Choudhury and Hahne (1998)
 * proposed for the buffers of switches.
 */
export class QueueShare {
  readonly #bound: number;
  /** Requests of each caller that wait or run. */
  readonly #held = new Map<string, number>();

  constructor(bound: number) {
    this.#bound = bound;
  }

  /**
   * Takes a place for the caller. Returns the function that frees the place, or undefined when the caller already
   * holds its share. `waiting` is the number of waiting requests of all callers.
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
