/** Predicts the experts of the last stack's tokens one at a time, as a generation produces them. */
import { offsetsOf } from '../ragged.js';
import type { DecoderStepper, HashFunction, RoutingShape } from './hash-function.js';

/** Steps a stateless hash function: each step calls it with the whole sequence and keeps the last token's row. */
export class PrefixStepper implements DecoderStepper {
  readonly #function: HashFunction;
  readonly #stack: number;
  readonly #layers: number;
  readonly #sequences = new Map<number, { context: Int32Array; tokens: number[] }>();

  constructor(hashFunction: HashFunction, { stacks }: RoutingShape) {
    this.#function = hashFunction;
    this.#stack = stacks.length - 1;
    this.#layers = stacks[this.#stack]!.layers;
  }

  begin(sequence: number, context: Int32Array, fed: Int32Array): void {
    this.#sequences.set(sequence, { context, tokens: [...fed] });
  }

  fork(from: number, sequence: number): void {
    const { context, tokens } = this.#sequences.get(from)!;
    this.#sequences.set(sequence, { context, tokens: [...tokens] });
  }

  step(
    sequences: Int32Array,
    tokens: Int32Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const states = [...sequences].map((id, i) => {
      const state = this.#sequences.get(id)!;
      state.tokens.push(tokens[i]!);
      return state;
    });
    const all = states.reduce((sum, state) => sum + state.tokens.length, 0);
    const entries = this.#layers * all * k;
    const wide = {
      experts: new Uint16Array(entries),
      alpha: new Float32Array(entries),
      chance: new Float32Array(entries),
    };
    const input = {
      tokens: Int32Array.from(states.flatMap((state) => state.tokens)),
      offsets: offsetsOf(states.map((state) => state.tokens.length)),
      contextTokens: Int32Array.from(states.flatMap(({ context }) => [...context])),
      contextOffsets: offsetsOf(states.map(({ context }) => context.length)),
    };
    if (!this.#function.fill(this.#stack, input, k, wide.experts, wide.alpha, wide.chance)) return false;
    for (let layer = 0; layer < this.#layers; layer++) {
      for (let s = 0; s < states.length; s++) {
        const from = (layer * all + input.offsets[s + 1]! - 1) * k;
        const to = (layer * states.length + s) * k;
        experts.set(wide.experts.subarray(from, from + k), to);
        alpha.set(wide.alpha.subarray(from, from + k), to);
        chance.set(wide.chance.subarray(from, from + k), to);
      }
    }
    return true;
  }

  end(sequence: number): void {
    this.#sequences.delete(sequence);
  }
}

/** Returns null if the function does not predict the last stack or that stack has no MoE layers. */
export function openStepper(hashFunction: HashFunction, shape: RoutingShape): DecoderStepper | null {
  if (shape.stacks.at(-1)!.layers === 0) return null;
  return hashFunction.stepper === undefined ? new PrefixStepper(hashFunction, shape) : hashFunction.stepper();
}
