/** How often, and how surely, each token id went to each expert. */
import { routerProbabilities } from './router-probabilities.js';
import type { TeacherRecord } from './teacher.js';

/** Counts of one token, or of all: (layers, experts) each. */
export interface Counts {
  occurrences: number;
  /** Times the expert was the router's best. */
  wins: Float64Array;
  /** Sum of the expert's probabilities. */
  mass: Float64Array;
}

/** One stack's counts. Memory grows with the token ids that occur, not with the trace. */
export class TokenCounts {
  readonly tokens = new Map<number, Counts>();
  /** Sum over the tokens; without any every expert is as likely as another. */
  readonly all: Counts;
  readonly #layers: number;
  readonly #experts: number;

  constructor(layers: number, experts: number) {
    this.#layers = layers;
    this.#experts = experts;
    this.all = this.#counts(1);
    this.all.wins.fill(1 / experts);
    this.all.mass.fill(1 / experts);
  }

  add({ tokens, experts, logits }: TeacherRecord['encoder'], top: number): void {
    const probabilities = new Float64Array(top);
    for (let t = 0; t < tokens.length; t++) {
      const own = this.#of(tokens[t]!);
      own.occurrences++;
      this.all.occurrences++;
      for (let layer = 0; layer < this.#layers; layer++) {
        const from = (layer * tokens.length + t) * top;
        const base = layer * this.#experts;
        const unrecorded = routerProbabilities(logits, from, top, this.#experts, probabilities);
        for (const counts of [own, this.all]) {
          counts.wins[base + experts[from]!]!++;
          const mass = counts.mass.subarray(base, base + this.#experts);
          for (let i = 0; i < top; i++) mass[experts[from + i]!]! += probabilities[i]! - unrecorded;
          for (let e = 0; e < this.#experts; e++) mass[e]! += unrecorded;
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
    const entries = this.#layers * this.#experts;
    return { occurrences, wins: new Float64Array(entries), mass: new Float64Array(entries) };
  }
}

/** A token's mean of `entry`, that over all tokens counted as `weight` occurrences more; an unknown id's is that alone. */
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
