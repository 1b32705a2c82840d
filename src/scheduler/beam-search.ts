/**
 * The bookkeeping of one beam search, with the rules of `_beam_search` in Hugging Face transformers. Scores are sums of
 * log-probabilities in float32. Ties go to the earlier beam, then to the more likely token.
 *
 * A hypothesis has ended when its last token is an end token, or when it has `maxTokens` tokens. Its score is its sum
 * divided by length^lengthPenalty, where the length counts all generated tokens: a forced first token and the end token
 * too, the decoder's start token not.
 */
import type { BeamSettings } from '../protocol/item-work.js';
import type { RankedToken } from '../protocol/sampling.js';

interface BeamLimits extends BeamSettings {
  maxTokens: number;
  endTokens: readonly number[];
}

interface RunningBeam {
  readonly tokens: readonly number[];
  /** Sum of the tokens' log-probabilities. */
  readonly sum: number;
}

export interface Hypothesis {
  readonly tokens: readonly number[];
  readonly score: number;
}

/** A beam of the next step: the beam of this step that it continues, by index, and the token that it adds. */
export interface Continuation {
  readonly from: number;
  readonly token: number;
}

interface Candidate extends Continuation {
  readonly sum: number;
}

/**
 * Most likely tokens that each beam must name. Every beam could end in each of the end tokens, and enough candidates
 * must remain to continue `beams` beams.
 */
export function candidatesPerBeam(beams: number, endTokens: readonly number[]): number {
  return beams * Math.max(2, 1 + endTokens.length);
}

export class BeamSearch {
  readonly #limits: BeamLimits;
  /** Best first. */
  #running: readonly RunningBeam[] = [{ tokens: [], sum: 0 }];
  /** Ended hypotheses, best first, at most as many as beams. */
  #ended: readonly Hypothesis[] = [];
  #length = 0;

  constructor(limits: BeamLimits) {
    this.#limits = limits;
  }

  /** Ended hypotheses, best first. Fewer than beams if the search allowed no more. */
  get hypotheses(): readonly Hypothesis[] {
    return this.#ended;
  }

  /**
   * Takes one step. `ranked` holds the most likely next tokens of each beam, most likely first. Returns the beams of
   * the next step, best first; none once the search has ended.
   */
  step(ranked: readonly (readonly RankedToken[])[]): readonly Continuation[] {
    const { beams, maxTokens, endTokens } = this.#limits;
    this.#length += 1;
    const candidates = this.#candidates(ranked);
    const ends = ({ token }: Candidate) => this.#length === maxTokens || endTokens.includes(token);
    // Only the best `beams` candidates may end. The others are there so that enough beams continue.
    this.#end(candidates.slice(0, beams).filter(ends));
    const next = candidates.filter((candidate) => !ends(candidate)).slice(0, beams);
    const running = next.map((candidate) => ({ tokens: this.#tokens(candidate), sum: candidate.sum }));
    this.#running = running;
    return this.#hasEnded() ? [] : next;
  }

  #candidates(ranked: readonly (readonly RankedToken[])[]): Candidate[] {
    const { beams, endTokens } = this.#limits;
    return ranked
      .flatMap((tokens, from) =>
        tokens.map(({ id, logprob }): Candidate => {
          return { from, token: id, sum: Math.fround(Math.fround(logprob) + this.#running[from]!.sum) };
        }),
      )
      .sort((a, b) => b.sum - a.sum)
      .slice(0, candidatesPerBeam(beams, endTokens));
  }

  #tokens({ from, token }: Candidate): number[] {
    return [...this.#running[from]!.tokens, token];
  }

  #end(candidates: readonly Candidate[]): void {
    const ended = candidates.map((candidate): Hypothesis => {
      return { tokens: this.#tokens(candidate), score: this.#score(candidate.sum, this.#length) };
    });
    this.#ended = [...this.#ended, ...ended].sort((a, b) => b.score - a.score).slice(0, this.#limits.beams);
  }

  #score(sum: number, length: number): number {
    return Math.fround(sum / Math.fround(length ** this.#limits.lengthPenalty));
  }

  #hasEnded(): boolean {
    const { beams, maxTokens, earlyStopping, lengthPenalty } = this.#limits;
    const [best] = this.#running;
    if (best === undefined) return true;
    if (this.#ended.length < beams) return false;
    if (earlyStopping === true) return true;
    // A guess at the best score that a running beam can still get. A longer text may score better than the current
    // length suggests; only "never" allows for that.
    const length = earlyStopping === 'never' && lengthPenalty > 0 ? maxTokens : this.#length;
    return this.#score(best.sum, length) <= this.#ended.at(-1)!.score;
  }
}
