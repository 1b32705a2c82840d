/**
 * The `shuffled` hash function is a control: it takes the tables of another function and permutes the experts of each
 * layer. Its tables list as many experts, so they move as many bytes, but of the wrong experts.
 */
import type { HashFunction, HashInput, RoutingShape } from '../hash-function.js';
import { randomOf } from '../random.js';

export class ShuffledFunction implements HashFunction {
  readonly name = 'shuffled';
  readonly #inner: HashFunction;
  readonly #names: ExpertNames;

  constructor(inner: HashFunction, shape: RoutingShape, seed = 1) {
    this.#inner = inner;
    this.#names = new ExpertNames(shape, seed);
  }

  fill(
    stack: number,
    input: HashInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    if (!this.#inner.fill(stack, input, k, experts, alpha, chance)) return false;
    this.#names.rename(stack, experts, input.tokens.length * k);
    return true;
  }

  close(): void {
    this.#inner.close();
  }
}

/** Another name for each expert of each layer, which is never its own. */
export class ExpertNames {
  /** A permutation of the expert indices for each layer of each stack. */
  readonly #names: readonly Uint16Array[][];

  constructor({ stacks, experts }: RoutingShape, seed = 1) {
    const random = randomOf(seed);
    this.#names = stacks.map(({ layers }) =>
      Array.from({ length: layers }, () => cyclicPermutation(experts, random)),
    );
  }

  /** Renames the experts in place: `entries` of each layer of the stack, layer by layer. */
  rename(stack: number, experts: Uint16Array, entries: number): void {
    this.#names[stack]!.forEach((names, layer) => {
      const end = (layer + 1) * entries;
      // NO_EXPERT is not in the permutation and stays as it is.
      for (let i = layer * entries; i < end; i++) experts[i] = names[experts[i]!] ?? experts[i]!;
    });
  }
}

/** Sattolo's algorithm: the result is one cycle, so no element of two or more keeps its place. */
export function cyclicPermutation(size: number, random: () => number): Uint16Array {
  const permutation = Uint16Array.from({ length: size }, (_, i) => i);
  for (let i = size - 1; i > 0; i--) {
    const j = Math.floor(random() * i);
    [permutation[i], permutation[j]] = [permutation[j]!, permutation[i]!];
  }
  return permutation;
}
