/** The hash graph as a refiner: every layer's true experts sharpen what the table says of those that follow. */
import type { Side, TableRefiner } from '../hash-function.js';
import type { LayerRescorer } from './layer-rescorer.js';

/** [layer whose experts are known][layer to sharpen]; undefined leaves that layer as it is. */
export type Rescorers = readonly (readonly (LayerRescorer | undefined)[])[];

export class GraphRefiner implements TableRefiner {
  readonly #sides: Readonly<Record<Side, Rescorers>>;

  constructor(sides: Record<Side, Rescorers>) {
    this.#sides = sides;
  }

  refine(
    side: Side,
    layer: number,
    routed: Uint16Array,
    layers: number,
    tokens: number,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): void {
    const rescorers = this.#sides[side][layer];
    for (let later = layer + 1; later < layers; later++) {
      const rows = [later * tokens * k, (later + 1) * tokens * k] as const;
      rescorers?.[later]?.rescore(
        routed,
        k,
        experts.subarray(...rows),
        alpha.subarray(...rows),
        chance.subarray(...rows),
      );
    }
  }
}
