/** What routes an input in place of the model's routers: its tables, random tables, or nothing at all. */

import { routingOf, tableRows } from '../forecast/pass-forecast.js';
import type { NativeRouting } from '../native/addon-types.js';
import { expertsOfStack, type RoutingShape } from '../predictor/hash-function.js';
import { randomOf } from '../predictor/random.js';
import type { HashTable } from '../protocol/hash-table.js';

/** The first `k` entries of each token. */
export function routingBy(table: HashTable, k: number): NativeRouting {
  return routingOf(tableRows(table)!, k);
}

/** Another name for each expert of each layer, which is never its own. */
export class ExpertNames {
  /** A permutation of the expert indices for each layer of each stack. */
  readonly #names: readonly Uint16Array[][];

  constructor(shape: RoutingShape, seed = 1) {
    const random = randomOf(seed);
    this.#names = shape.stacks.map((_, stack) =>
      expertsOfStack(shape, stack).map((experts) => cyclicPermutation(experts, random)),
    );
  }

  /** Renames the experts of the stack's layers in place. */
  rename(stack: number, experts: Uint16Array): void {
    const names = this.#names[stack]!;
    const entries = experts.length / names.length;
    names.forEach((own, layer) => {
      // NO_EXPERT is not in the permutation and stays as it is.
      for (let i = layer * entries; i < (layer + 1) * entries; i++)
        experts[i] = own[experts[i]!] ?? experts[i]!;
    });
  }
}

/** Sattolo's algorithm: the result is one cycle, so no element of two or more keeps its place. */
function cyclicPermutation(size: number, random: () => number): Uint16Array {
  const permutation = Uint16Array.from({ length: size }, (_, i) => i);
  for (let i = size - 1; i > 0; i--) {
    const j = Math.floor(random() * i);
    [permutation[i], permutation[j]] = [permutation[j]!, permutation[i]!];
  }
  return permutation;
}

/** The same with the experts of each layer renamed: as many experts with the same weights, but the wrong ones. */
export function renamed(routing: NativeRouting, stack: number, names: ExpertNames): NativeRouting {
  const experts = routing.experts.slice();
  names.rename(stack, experts);
  return { ...routing, experts };
}

/** Weighs the one expert that it names with 0, so that the MoE layers add nothing: experts of zeros. */
export function routingToNothing(layers: number, tokens: number): NativeRouting {
  return { experts: new Uint16Array(layers * tokens), alpha: new Float32Array(layers * tokens), k: 1 };
}
