/** Sharpens one layer of a table from the true experts of an earlier layer of the same pass. */
import { NO_EXPERT } from '../hash-table.js';

/** What is left of 1 where every expert was taken from it. */
const ROUNDING = 1e-6;

export interface RescorerOptions {
  /** (P(f | e) / P(f)) ^ exponent of expert f of this layer, given expert e of the earlier one; (experts, experts). */
  ratios: Float32Array;
  /** P(f), above 0; (experts). */
  frequencies: Float32Array;
  /** α of experts that the table did not name; (experts). */
  alpha: Float32Array;
}

/**
 * Naive Bayes: a candidate weighs chance · ratio. Experts that the table does not name share, by their frequency, what
 * its chances leave. A candidate's new chance is its share of all weights.
 */
export class LayerRescorer {
  readonly #experts: number;
  readonly #ratios: Float32Array;
  readonly #frequencies: Float32Array;
  readonly #alpha: Float32Array;
  /** For each earlier expert, those of this layer by falling frequency · ratio; (experts, experts). */
  readonly #successors: Uint16Array;
  /** Sum of frequency · ratio after each earlier expert; (experts). */
  readonly #sums: Float64Array;
  /** Stamp of the row that last named an expert; (experts). */
  readonly #named: Float64Array;
  #row = 0;

  constructor({ ratios, frequencies, alpha }: RescorerOptions) {
    this.#experts = alpha.length;
    this.#ratios = ratios;
    this.#frequencies = frequencies;
    this.#alpha = alpha;
    this.#named = new Float64Array(this.#experts);
    this.#successors = new Uint16Array(ratios.length);
    this.#sums = new Float64Array(this.#experts);
    const order = Array.from({ length: this.#experts }, (_, i) => i);
    for (let e = 0; e < this.#experts; e++) {
      const base = e * this.#experts;
      const weights = Array.from(frequencies, (p, f) => p * ratios[base + f]!);
      this.#sums[e] = weights.reduce((sum, weight) => sum + weight, 0);
      order.sort((a, b) => weights[b]! - weights[a]! || a - b);
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
      const { found, total } = this.#bestOf(routed[t]!, t * k, k, count, experts, alpha, chance, best);
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
    chance: Float32Array,
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
    let [rest, unnamed, total, others] = [1, 1, 0, this.#sums[routed]!];
    for (let j = 0; j < k; j++) {
      const expert = experts[from + j]!;
      if (expert >= this.#experts || this.#named[expert] === row) continue;
      this.#named[expert] = row;
      const ratio = this.#ratios[base + expert]!;
      const weight = chance[from + j]! * ratio;
      rest -= chance[from + j]!;
      unnamed -= this.#frequencies[expert]!;
      others -= this.#frequencies[expert]! * ratio;
      total += weight;
      offer(expert, weight, alpha[from + j]!);
    }
    const scale = unnamed > ROUNDING ? Math.max(0, rest) / unnamed : 0;
    for (let i = 0, left = count; i < this.#experts && left > 0; i++) {
      const expert = this.#successors[base + i]!;
      if (this.#named[expert] === row) continue;
      left--;
      const weight = scale * this.#frequencies[expert]! * this.#ratios[base + expert]!;
      offer(expert, weight, this.#alpha[expert]!);
    }
    const ofFound = best.weights.subarray(0, found).reduce((sum, weight) => sum + weight, 0);
    // `others` is a difference of sums and may lose the smallest of them.
    return { found, total: Math.max(ofFound, total + scale * Math.max(0, others)) };
  }
}
