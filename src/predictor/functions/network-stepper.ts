/** Steps a causal network, which keeps the state of each sequence. */
import type { Predictor } from '../../native/addon-types.js';
import type { DecoderStepper, RoutingShape } from '../hash-function.js';

export class NetworkStepper implements DecoderStepper {
  readonly #network: Predictor;
  readonly #shape: RoutingShape;

  constructor(network: Predictor, shape: RoutingShape) {
    this.#network = network;
    this.#shape = shape;
  }

  begin(sequence: number, context: Int32Array, fed: Int32Array): void {
    const ids = Int32Array.of(sequence);
    this.#network.begin(ids, context, Int32Array.of(0, context.length));
    const { layers } = this.#shape.stacks.at(-1)!;
    const [experts, alpha, chance] = [
      new Uint16Array(layers),
      new Float32Array(layers),
      new Float32Array(layers),
    ];
    for (const token of fed) this.#network.step(ids, Int32Array.of(token), 1, experts, alpha, chance);
  }

  fork(from: number, sequence: number): void {
    this.#network.fork(Int32Array.of(from), Int32Array.of(sequence));
  }

  step(
    sequences: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    if (!this.#network.step(sequences, tokens, k, experts, alpha, chance)) return false;
    normalize(this.#shape, k, alpha);
    return true;
  }

  end(sequence: number): void {
    this.#network.end(Int32Array.of(sequence));
  }
}

/**
 * If the model divides the router probabilities of a token's chosen experts by their sum, this does the same to the
 * `k` predicted probabilities of each token, in place.
 */
export function normalize({ normalized, topK }: RoutingShape, k: number, alpha: Float32Array): void {
  if (!normalized) return;
  for (let from = 0; from < alpha.length; from += k) {
    let sum = 0;
    for (let i = from; i < from + Math.min(topK, k); i++) sum += alpha[i]!;
    for (let i = from; i < from + k; i++) alpha[i]! /= sum;
  }
}
