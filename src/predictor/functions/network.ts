/** The hash functions `lstm` and `attention`: one trained network per stack. */
import type { Predictor } from '../../native/addon-types.js';
import type { NetworkName } from '../../protocol/predictor-messages.js';
import {
  type DecoderStepper,
  type HashFunction,
  type HashInput,
  type NamedExperts,
  namedExperts,
  type RoutingShape,
} from '../hash-function.js';
import { copyRows } from '../table-rows.js';

export class NetworkFunction implements HashFunction {
  readonly name: NetworkName;
  readonly #shape: RoutingShape;
  readonly #networks: readonly (Predictor | null)[];

  /** One network per stack; a stack whose entry is null is not predicted. `close` closes the networks. */
  constructor(name: NetworkName, shape: RoutingShape, networks: readonly (Predictor | null)[]) {
    this.name = name;
    this.#shape = shape;
    this.#networks = networks;
  }

  fill(stack: number, input: HashInput, into: NamedExperts): boolean {
    const network = this.#networks[stack];
    if (network == null) return false;
    const continues = !network.shape.summary && (input.contextTokens?.length ?? 0) > 0;
    if (!continues) return this.#predict(network, input, into);
    const { whole, rows } = withContexts(input);
    const { layers } = this.#shape.stacks[stack]!;
    const tokens = whole.tokens.length;
    const all = { layers, tokens, ...namedExperts(layers * tokens, into.k) };
    if (!this.#predict(network, whole, all)) return false;
    copyRows(all, rows, { layers, tokens: rows.length, ...into }, [...rows.keys()]);
    return true;
  }

  stepper(): DecoderStepper | null {
    const network = this.#networks.at(-1);
    if (network == null) return null;
    const step = (ids: Int32Array, tokens: Int32Array, into: NamedExperts): boolean => {
      if (!network.step(ids, tokens, into.k, into.experts, into.alpha, into.chance)) return false;
      normalize(this.#shape, into);
      return true;
    };
    return {
      begin: (sequence, context, fed) => {
        const ids = Int32Array.of(sequence);
        network.begin(ids, context, Int32Array.of(0, context.length));
        const unread = namedExperts(network.shape.layers, 1);
        for (const token of fed) step(ids, Int32Array.of(token), unread);
      },
      fork: (from, sequence) => network.fork(Int32Array.of(from), Int32Array.of(sequence)),
      step,
      end: (sequence) => network.end(Int32Array.of(sequence)),
    };
  }

  close(): void {
    for (const network of this.#networks) network?.close();
  }

  #predict(network: Predictor, input: HashInput, into: NamedExperts): boolean {
    if (!network.predict(input, into.k, into.experts, into.alpha, into.chance)) return false;
    normalize(this.#shape, into);
    return true;
  }
}

/**
 * If the model divides the router probabilities of a token's chosen experts by their sum, this does the same to the
 * `k` predicted probabilities of each token, in place.
 */
function normalize({ normalized, topK }: RoutingShape, { k, alpha }: NamedExperts): void {
  if (!normalized) return;
  for (let from = 0; from < alpha.length; from += k) {
    let sum = 0;
    for (let i = from; i < from + Math.min(topK, k); i++) sum += alpha[i]!;
    for (let i = from; i < from + k; i++) alpha[i]! /= sum;
  }
}

/** The sequences, each preceded by its context, and the position of each of their own tokens in the result. */
function withContexts({ tokens, offsets, contextTokens, contextOffsets }: HashInput) {
  const whole = new Int32Array(tokens.length + contextTokens!.length);
  const ends = offsets.map((offset, s) => offset + contextOffsets![s]!);
  const rows: number[] = [];
  for (let s = 0; s + 1 < offsets.length; s++) {
    const context = contextTokens!.subarray(contextOffsets![s], contextOffsets![s + 1]);
    const begin = ends[s]! + context.length;
    whole.set(context, ends[s]!);
    whole.set(tokens.subarray(offsets[s], offsets[s + 1]), begin);
    for (let row = begin; row < ends[s + 1]!; row++) rows.push(row);
  }
  return { whole: { tokens: whole, offsets: ends }, rows };
}
