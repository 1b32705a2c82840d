/** Predicts the next turn of a layer from its past: chances that it needs each expert. */

/** Weight of the frequencies, in turns: they dominate for an expert that was seldom seen. */
const PRIOR = 4;

export type Predictor = 'repeat' | 'frequency' | 'transition';

export class VisitHistory {
  readonly #experts: number;
  /** Turns between the last known one, when a table is made, and the turn that it predicts. */
  readonly #lag: number;
  readonly #recent: (readonly number[])[] = [];
  readonly #uses: Float64Array;
  #turns = 0;
  #needs = 0;
  /** Of the experts needed `lag` turns before: needed again, and all; of the others likewise. */
  readonly #again = { yes: 0, all: 0 };
  readonly #anew = { yes: 0, all: 0 };
  /** (experts then, experts now), turns that needed one and `lag` turns later the other. */
  readonly #pairs: Float32Array;
  readonly #from: Float64Array;

  constructor(experts: number, lag: number) {
    this.#experts = experts;
    this.#lag = lag;
    this.#uses = new Float64Array(experts);
    this.#pairs = new Float32Array(experts * experts);
    this.#from = new Float64Array(experts);
  }

  /** `needed`: of the turn that has run, each once. */
  learn(needed: readonly number[]): void {
    this.#turns += 1;
    this.#needs += needed.length;
    for (const expert of needed) this.#uses[expert]! += 1;
    this.#recent.push(needed);
    if (this.#recent.length <= this.#lag) return;
    const before = this.#recent.shift()!;
    const known = new Set(before);
    const again = needed.filter((expert) => known.has(expert)).length;
    this.#again.yes += again;
    this.#again.all += before.length;
    this.#anew.yes += needed.length - again;
    this.#anew.all += this.#experts - before.length;
    for (const from of before) {
      this.#from[from]! += 1;
      for (const to of needed) this.#pairs[from * this.#experts + to]! += 1;
    }
  }

  /** (experts); zeros before the first turn. */
  chances(predictor: Predictor): Float32Array {
    const chances = new Float32Array(this.#experts);
    if (this.#turns === 0) return chances;
    const share = this.#needs / (this.#turns * this.#experts);
    const frequency = (expert: number) => (this.#uses[expert]! + share) / (this.#turns + 1);
    const last = this.#recent.at(-1)!;
    if (predictor === 'repeat') {
      const rate = ({ yes, all }: { yes: number; all: number }) => (yes + share) / (all + 1);
      chances.fill(rate(this.#anew));
      for (const expert of last) chances[expert] = rate(this.#again);
      return chances;
    }
    for (let expert = 0; expert < this.#experts; expert++) {
      const often = frequency(expert);
      if (predictor === 'frequency') {
        chances[expert] = often;
        continue;
      }
      let sum = 0;
      for (const from of last) {
        const pairs = this.#pairs[from * this.#experts + expert]!;
        sum += (pairs + PRIOR * often) / (this.#from[from]! + PRIOR);
      }
      chances[expert] = sum / last.length;
    }
    return chances;
  }
}
