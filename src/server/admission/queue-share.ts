/**
 * What one caller may hold of the queue: as much as it leaves free. So a single one fills half, two fill a third each,
 * and whoever comes later finds room. (Choudhury and Hahne's dynamic thresholds, 1998, for buffers of switches.)
 */
export class QueueShare {
  readonly #bound: number;
  /** Requests of each caller that wait or run. */
  readonly #held = new Map<string, number>();

  constructor(bound: number) {
    this.#bound = bound;
  }

  /** Returns what gives the place back, or undefined where `who` holds its share. `waiting`: requests of all callers. */
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
