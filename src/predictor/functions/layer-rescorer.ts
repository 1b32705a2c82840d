/** Sharpens one layer of a table from the true experts of an earlier layer of the same pass. */
import { NO_EXPERT } from '../hash-table.js';

export interface RescorerOptions {
  /** (P(f | e) / P(f)) ^ exponent of expert f of this layer, given expert e of the earlier one; (experts, experts). */
  ratios: Float32Array;
  /** Probability that the expert a table names at this rank is the true one; (ranks). */
  ranks: Float32Array;
  /** α of experts that the table did not name; (experts). */
  alpha: Float32Array;
}

/**
 * Naive Bayes: a candidate weighs ranks[its rank] · ratio. Experts that the table does not name share what its ranks
 * leave. A candidate's chance is its share of all weights. The table's α is no weight: it is the router's probability,
 * not how sure the table is of its expert.
 */
export class LayerRescorer {
  readonly #experts: number;
  readonly #ratios: Float32Array;
  readonly #ranks: Float32Array;
  readonly #alpha: Float32Array;
  /** For each earlier expert, those of this layer by falling ratio; (experts, experts). */
  readonly #successors: Uint16Array;
  /** Sum of the ratios after each earlier expert; (experts). */
  readonly #sums: Float64Array;
  /** Stamp of the row that last named an expert; (experts). */
  readonly #named: Float64Array;
  #row = 0;

  constructor({ ratios, ranks, alpha }: RescorerOptions) {
    this.#experts = alpha.length;
    this.#ratios = ratios;
    this.#ranks = ranks;
    this.#alpha = alpha;
    this.#named = new Float64Array(this.#experts);
    this.#successors = new Uint16Array(ratios.length);
    this.#sums = new Float64Array(this.#experts);
    const order = Array.from({ length: this.#experts }, (_, i) => i);
    for (let e = 0; e < this.#experts; e++) {
      const base = e * this.#experts;
      for (let f = 0; f < this.#experts; f++) this.#sums[e]! += ratios[base + f]!;
      order.sort((a, b) => ratios[base + b]! - ratios[base + a]! || a - b);
      this.#successors.set(order, base);
    }
  }

  /** Rewrites `experts`, `alpha` and `chance`, (tokens, k), where `routed` (tokens) names an expert. */
  rescore(
    routed: Uint16Array,
    k: number,
    experts: Uint16Array,
    alpha: Float32Array,
    chance: Float32Array,
  ): void {
    const best = { experts: new Uint16Array(k), alpha: new Float32Array(k), weights: new Float64Array(k) };
    const count = Math.min(k, this.#experts);
    for (let t = 0; t < routed.length; t++) {
      if (routed[t]! >= this.#experts) continue;
      const { found, total } = this.#bestOf(routed[t]!, t * k, k, count, experts, alpha, best);
      experts.set(best.experts, t * k);
      alpha.set(best.alpha, t * k);
      for (let j = 0; j < found; j++) chance[t * k + j] = total > 0 ? best.weights[j]! / total : 0;
      experts.fill(NO_EXPERT, t * k + found, (t + 1) * k);
      alpha.fill(0, t * k + found, (t + 1) * k);
      chance.fill(0, t * k + found, (t + 1) * k);
    }
  }

  /** The `count` heaviest candidates of a row, heaviest first, into `best`; how many, and the weight of all experts. */
  #bestOf(
    routed: number,
    from: number,
    k: number,
    count: number,
    experts: Uint16Array,
    alpha: Float32Array,
    best: { experts: Uint16Array; alpha: Float32Array; weights: Float64Array },
  ): { found: number; total: number } {
    const base = routed * this.#experts;
    const row = ++this.#row;
    let found = 0;
    const offer = (expert: number, weight: number, itsAlpha: number) => {
      if (found === count && weight <= best.weights[found - 1]!) return;
      let at = found < count ? found++ : found - 1;
      for (; at > 0 && best.weights[at - 1]! < weight; at--) {
        best.experts[at] = best.experts[at - 1]!;
        best.alpha[at] = best.alpha[at - 1]!;
        best.weights[at] = best.weights[at - 1]!;
      }
      best.experts[at] = expert;
      best.alpha[at] = itsAlpha;
      best.weights[at] = weight;
    };
    let rest = 1;
    let named = 0;
    let least = 1;
    let total = 0;
    let others = this.#sums[routed]!;
    for (let j = 0; j < k; j++) {
      const expert = experts[from + j]!;
      if (expert >= this.#experts || this.#named[expert] === row) continue;
      this.#named[expert] = row;
      least = this.#ranks[Math.min(named, this.#ranks.length - 1)]!;
      rest -= named < this.#ranks.length ? least : 0;
      named++;
      const ratio = this.#ratios[base + expert]!;
      others -= ratio;
      total += least * ratio;
      offer(expert, least * ratio, alpha[from + j]!);
    }
    const floor = Math.min(least, Math.max(0, rest) / Math.max(1, this.#experts - named));
    for (let i = 0, left = count; i < this.#experts && left > 0; i++) {
      const expert = this.#successors[base + i]!;
      if (this.#named[expert] === row) continue;
      left--;
      offer(expert, floor * this.#ratios[base + expert]!, this.#alpha[expert]!);
    }
    return { found, total: total + floor * Math.max(0, others) };
  }
}
