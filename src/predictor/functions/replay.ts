/** The `replay` hash function: returns the recorded routing of inputs that a trace holds. */
import { NO_EXPERT } from '../../native/addon-types.js';
import type { HashFunction, HashInput, RoutingShape } from '../hash-function.js';
import { routerAlphas } from '../router-probabilities.js';
import { contextOf, rowsBehind, withContexts } from '../sequence-contexts.js';
import { bestExperts, type TeacherRecord, type TeacherSource } from '../teacher.js';

/** Recorded routing of one stack: the experts that the routers chose for each token. */
interface Routing {
  tokens: Int32Array;
  /** (layers, tokens, topK). */
  experts: Uint16Array;
  /** (layers, tokens, topK). */
  alpha: Float32Array;
}

export class ReplayFunction implements HashFunction {
  readonly name = 'replay';
  readonly #shape: RoutingShape;
  /** Routing of each stack, sorted by the tokens of the first stack. */
  readonly #recorded: readonly Routing[][];

  private constructor(shape: RoutingShape, recorded: readonly Routing[][]) {
    this.#shape = shape;
    this.#recorded = recorded;
  }

  /** Holds about 4 bytes per token, plus 6 bytes per token, layer and chosen expert. */
  static async load(source: TeacherSource): Promise<ReplayFunction> {
    const { shape } = source;
    const recorded: Routing[][] = [];
    for await (const record of source.records()) {
      recorded.push(shape.stacks.map((_, stack) => routingOf(record, stack, shape)));
    }
    // The same input continues the same way, so sort the longest of several recordings first.
    const last = shape.stacks.length - 1;
    recorded.sort(
      (a, b) => order(a[0]!.tokens, b[0]!.tokens) || b[last]!.tokens.length - a[last]!.tokens.length,
    );
    return new ReplayFunction(shape, recorded);
  }

  /**
   * Finds a sequence of a stack with cross-attention by its context and its tokens, and any other sequence by its own
   * tokens. The tokens of a causal stack may be a prefix of the recorded ones. An input may have been recorded several
   * times, with other tokens in its decoder. Returns false if any sequence was not recorded.
   */
  fill(
    stack: number,
    input: HashInput,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): boolean {
    const { layers, crosses } = this.#shape.stacks[stack]!;
    const own = crosses ? input : withContexts(input);
    const found: Routing[] = [];
    for (let s = 0; s + 1 < input.offsets.length; s++) {
      const tokens = own.tokens.subarray(own.offsets[s], own.offsets[s + 1]);
      const routing = crosses
        ? this.#find(stack, contextOf(input, s), true, tokens)
        : this.#find(stack, tokens, !this.#shape.stacks[stack]!.causal, tokens);
      if (routing === undefined) return false;
      found.push(routing);
    }
    const rows = crosses ? Array.from(input.tokens, (_, t) => t) : rowsBehind(input);
    const count = Math.min(k, this.#shape.topK);
    const end = layers * input.tokens.length * k;
    experts.fill(NO_EXPERT, 0, end);
    alpha.fill(0, 0, end);
    chance.fill(0, 0, end);
    for (let layer = 0; layer < layers; layer++) {
      found.forEach((routing, s) => {
        for (let t = input.offsets[s]!; t < input.offsets[s + 1]!; t++) {
          const from = (layer * routing.tokens.length + rows[t]! - own.offsets[s]!) * this.#shape.topK;
          const to = (layer * input.tokens.length + t) * k;
          for (let i = 0; i < count; i++) {
            experts[to + i] = routing.experts[from + i]!;
            alpha[to + i] = routing.alpha[from + i]!;
            chance[to + i] = 1;
          }
        }
      });
    }
    return true;
  }

  close(): void {}

  /**
   * Returns the routing of `stack` in the first recording where that stack begins with `tokens`, and the first stack
   * with `first`; it equals `first` if `whole` is set.
   */
  #find(stack: number, first: Int32Array, whole: boolean, tokens: Int32Array): Routing | undefined {
    let [low, high] = [0, this.#recorded.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order(this.#recorded[middle]![0]!.tokens, first) < 0) low = middle + 1;
      else high = middle;
    }
    for (; low < this.#recorded.length; low++) {
      const found = this.#recorded[low]!;
      const own = found[0]!.tokens;
      if ((whole && own.length !== first.length) || !begins(own, first)) return undefined;
      if (begins(found[stack]!.tokens, tokens)) return found[stack];
    }
    return undefined;
  }
}

/** Lexicographic order: a prefix sorts before its continuations. */
function order(a: Int32Array, b: Int32Array): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

function begins(whole: Int32Array, start: Int32Array): boolean {
  return start.length <= whole.length && start.every((token, i) => token === whole[i]);
}

function routingOf(record: TeacherRecord, stack: number, shape: RoutingShape): Routing {
  const { tokens, experts, logits } = record.stacks[stack]!;
  const { top } = record;
  const { topK } = shape;
  const rows = experts.length / top;
  const alphas = new Float64Array(top);
  const alpha = new Float32Array(rows * topK);
  for (let row = 0; row < rows; row++) {
    routerAlphas(logits, row * top, top, shape, alphas);
    alpha.set(alphas.subarray(0, topK), row * topK);
  }
  return { tokens, experts: bestExperts(record, stack, topK), alpha };
}
