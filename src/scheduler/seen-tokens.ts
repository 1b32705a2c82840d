/** The tokens of a sequence that penalties count, as the native engine reads them. */
import type { LogitAdjustments } from '../protocol/sampling.js';

export interface TokenCounts {
  ids: Int32Array;
  /** How often each token was generated; 0 if only the prompt has it. */
  times: Uint32Array;
}

export class SeenTokens {
  readonly #counted: boolean;
  /** Where each token stands in the arrays, which have room for more. */
  readonly #places = new Map<number, number>();
  #ids: Int32Array = new Int32Array(16);
  #times: Uint32Array = new Uint32Array(16);

  /** `prompt` is what the sequence has before its first generated token. */
  constructor(adjustments: LogitAdjustments | undefined, prompt: ArrayLike<number>) {
    const { presence = 0, frequency = 0, repetition = 1 } = adjustments ?? {};
    this.#counted = presence !== 0 || frequency !== 0 || repetition !== 1;
    if (repetition === 1) return;
    for (let i = 0; i < prompt.length; ++i) this.#placeOf(prompt[i]!);
  }

  /** Counts a generated token. */
  add(id: number): void {
    if (!this.#counted) return;
    // The arrays may be replaced by larger ones.
    const place = this.#placeOf(id);
    this.#times[place]! += 1;
  }

  /** Valid until the next `add`. */
  get counts(): TokenCounts {
    const { size } = this.#places;
    return { ids: this.#ids.subarray(0, size), times: this.#times.subarray(0, size) };
  }

  #placeOf(id: number): number {
    const known = this.#places.get(id);
    if (known !== undefined) return known;
    const place = this.#places.size;
    if (place === this.#ids.length) {
      const [ids, times] = [this.#ids, this.#times];
      this.#ids = new Int32Array(2 * place);
      this.#times = new Uint32Array(2 * place);
      this.#ids.set(ids);
      this.#times.set(times);
    }
    this.#places.set(id, place);
    this.#ids[place] = id;
    return place;
  }
}
