/** The `lstm` hash function: the trained networks, one for each stack. */
import { NO_EXPERT, type Predictor, type PredictorInput } from '../../native/addon-types.js';
import type { DecoderStepper } from '../decoder-stepper.js';
import { type HashFunction, layersOf, type RoutingShape, type Side } from '../hash-function.js';
import { NetworkStepper } from './network-stepper.js';

export class LstmFunction implements HashFunction {
  readonly name = 'lstm';
  readonly #shape: RoutingShape;
  readonly #networks: Readonly<Partial<Record<Side, Predictor>>>;

  /** Of a side without a network nothing is said. Closes the networks with itself. */
  constructor(shape: RoutingShape, networks: Partial<Record<Side, Predictor>>) {
    this.#shape = shape;
    this.#networks = networks;
  }

  /** Memory of both networks. */
  get bytes(): number {
    return (this.#networks.encoder?.bytes ?? 0) + (this.#networks.decoder?.bytes ?? 0);
  }

  fill(
    side: Side,
    input: PredictorInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const network = this.#networks[side];
    if (network === undefined) return false;
    const known = Math.min(k, this.#shape.experts);
    if (known === k) return network.predict(input, k, experts, alpha, chance);
    const rows = layersOf(this.#shape, side) * input.tokens.length;
    const best = {
      experts: new Uint16Array(rows * known),
      alpha: new Float32Array(rows * known),
      chance: new Float32Array(rows * known),
    };
    if (!network.predict(input, known, best.experts, best.alpha, best.chance)) return false;
    experts.fill(NO_EXPERT, 0, rows * k);
    alpha.fill(0, 0, rows * k);
    chance.fill(0, 0, rows * k);
    for (let row = 0; row < rows; row++) {
      experts.set(best.experts.subarray(row * known, (row + 1) * known), row * k);
      alpha.set(best.alpha.subarray(row * known, (row + 1) * known), row * k);
      chance.set(best.chance.subarray(row * known, (row + 1) * known), row * k);
    }
    return true;
  }

  stepper(): DecoderStepper | null {
    const network = this.#networks.decoder;
    return network === undefined ? null : new NetworkStepper(network);
  }

  close(): void {
    this.#networks.encoder?.close();
    this.#networks.decoder?.close();
  }
}
