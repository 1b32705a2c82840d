/** Steps of a causal network, which keeps the state of each sequence. */
import type { Predictor } from '../../native/addon-types.js';
import type { DecoderStepper } from '../decoder-stepper.js';

export class NetworkStepper implements DecoderStepper {
  readonly #network: Predictor;

  constructor(network: Predictor) {
    this.#network = network;
  }

  begin(sequence: number, context: Int32Array): void {
    const id = Int32Array.of(sequence);
    if (this.#network.shape.summary) this.#network.begin(id, context, Int32Array.of(0, context.length));
    else this.#network.begin(id);
  }

  step(
    sequences: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    return this.#network.step(sequences, tokens, k, experts, alpha, chance);
  }

  end(sequence: number): void {
    this.#network.end(Int32Array.of(sequence));
  }
}
