/** Counts how often each token id was routed to each expert, and with which probability. */
import type { StackRecord } from '../../trace/trace-record.js';
import type { RoutingShape } from '../hash-function.js';
import { routerAlphas } from '../router-probabilities.js';

/** Counts of one token id, or of all: `wins` and `mass` are (layers, experts). */
export interface Counts {
  occurrences: number;
  /** Times that the router chose the expert. */
  wins: Float64Array;
  /** Sum of the expert's α. */
  mass: Float64Array;
}

/** Counts of one stack. Memory grows with the number of distinct token ids, not with the trace. */
export class TokenCounts {
  readonly tokens = new Map<number, Counts>();
  /** Sum over all tokens. It starts with one occurrence for which all experts are equally likely. */
  readonly all: Counts;
  readonly #layers: number;
  readonly #shape: RoutingShape;

  constructor(layers: number, shape: RoutingShape) {
    this.#layers = layers;
    this.#shape = shape;
    const { experts, topK, normalized } = shape;
    this.all = this.#counts(1);
    this.all.wins.fill(topK / experts);
    this.all.mass.fill(normalized ? 1 / topK : 1 / experts);
  }

  add({ tokens, experts, logits }: StackRecord, top: number): void {
    const alphas = new Float64Array(top);
    const { experts: perLayer, topK } = this.#shape;
    for (let t = 0; t < tokens.length; t++) {
      const own = this.#of(tokens[t]!);
      own.occurrences++;
      this.all.occurrences++;
      for (let layer = 0; layer < this.#layers; layer++) {
        const from = (layer * tokens.length + t) * top;
        const base = layer * perLayer;
        const unrecorded = routerAlphas(logits, from, top, this.#shape, alphas);
        for (const counts of [own, this.all]) {
          for (let i = 0; i < topK; i++) counts.wins[base + experts[from + i]!]!++;
          const mass = counts.mass.subarray(base, base + perLayer);
          for (let i = 0; i < top; i++) mass[experts[from + i]!]! += alphas[i]! - unrecorded;
          for (let e = 0; e < perLayer; e++) mass[e]! += unrecorded;
        }
      }
    }
  }

  #of(token: number): Counts {
    let counts = this.tokens.get(token);
    if (counts === undefined) {
      counts = this.#counts(0);
      this.tokens.set(token, counts);
    }
    return counts;
  }

  #counts(occurrences: number): Counts {
    const entries = this.#layers * this.#shape.experts;
    return { occurrences, wins: new Float64Array(entries), mass: new Float64Array(entries) };
  }
}

/**
 * Mean of `entry` for a token, with the mean over all tokens counted as `weight` more occurrences. Returns the
 * overall mean for an unknown token id.
 */
export function backedOff(
  { tokens, all }: TokenCounts,
  token: number,
  field: 'wins' | 'mass',
  entry: number,
  weight: number,
): number {
  const overall = all[field][entry]! / all.occurrences;
  const own = tokens.get(token);
  if (own === undefined) return overall;
  return (own[field][entry]! + weight * overall) / (own.occurrences + weight);
}
