/**
 * Expert Buffering of "Towards MoE Deployment" (Huang et al., 2023): experts that the running batch is known not to use
 * go first, then those loaded last.
 */
import { lifo } from '../inference/eviction/lifo.js';
import type { Residency, ResidencyPlan } from '../native/addon-types.js';

/** Behind every rank of LIFO. */
const INACTIVE = 2 ** 40;

export class ExpertBuffering {
  readonly #experts: number;
  readonly #keys: Float64Array;
  readonly #inactive: Uint8Array;

  /** `experts`: of a layer. */
  constructor(residency: Residency, experts: number) {
    this.#experts = experts;
    this.#keys = lifo.rank(residency).before;
    this.#inactive = new Uint8Array(this.#keys.length);
  }

  plan(): ResidencyPlan {
    const keys = this.#keys.map((rank, id) => rank + (this.#inactive[id] === 1 ? INACTIVE : 0));
    return { keys, keysAfter: keys, loads: new Uint32Array(), newestFirst: lifo.newestFirst };
  }

  /** A layer of the batch has chosen: all its other experts are inactive. */
  routed(layer: number, chosen: Uint16Array): ResidencyPlan {
    const first = layer * this.#experts;
    this.#inactive.fill(1, first, first + this.#experts);
    for (const index of chosen) if (index < this.#experts) this.#inactive[first + index] = 0;
    return this.plan();
  }
}
