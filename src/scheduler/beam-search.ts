/**
 * Beam search, with the rules of `_beam_search` in Hugging Face transformers. Scores are sums of log-probabilities in
 * float32. Ties go to the earlier beam, then to the more likely token.
 *
 * A hypothesis has ended when its last token is an end token, or when it has `maxTokens` tokens. Its score is its sum
 * divided by length^lengthPenalty, where the length counts all generated tokens: a forced first token and the end token
 * too, the decoder's start token not.
 */

import type { ModelShape } from '../native/addon-types.js';
import type { GeneratedToken } from '../protocol/inference-messages.js';
import type { BeamSettings, SearchWork } from '../protocol/item-work.js';
import type { RankedToken } from '../protocol/sampling.js';
import type { RunningSequence } from './generation.js';
import { type PickedToken, type TokenPick, tokenOf } from './pass-batch.js';
import type { Request } from './request.js';

interface BeamLimits extends BeamSettings {
  maxTokens: number;
  endTokens: readonly number[];
}

interface RunningBeam {
  readonly tokens: readonly number[];
  /** Sum of the tokens' log-probabilities. */
  readonly sum: number;
}

interface Hypothesis {
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

export class Beam implements RunningSequence {
  readonly search: RunningSearch;
  readonly sequence: number;
  readonly parent: number;
  nextToken: number;

  constructor(search: RunningSearch, sequence: number, parent: number, nextToken: number) {
    this.search = search;
    this.sequence = sequence;
    this.parent = parent;
    this.nextToken = nextToken;
  }

  get request(): Request {
    return this.search.request;
  }

  pick(): TokenPick {
    return { sampling: null, position: 0, top: this.search.candidates };
  }
}

/** How a step changes the sequences of a search. */
interface BeamChanges {
  /** Beams that nothing continues. */
  dropped: Beam[];
  /** New beams, each with the beam that it continues. They must be fed before or with that beam's next token. */
  forked: { beam: Beam; from: Beam }[];
  /** Beams that were there before and are fed another token. */
  kept: Beam[];
}

interface SearchStart {
  request: Request;
  work: SearchWork;
  shape: Pick<ModelShape, 'tokens' | 'vocabSize'>;
  newId: () => number;
}

export class RunningSearch {
  readonly request: Request;
  /** Most likely tokens that a pass names for each beam. */
  readonly candidates: number;
  readonly #work: SearchWork;
  readonly #newId: () => number;
  readonly #search: BeamSearch;
  /** In the order of the search. */
  #beams: readonly Beam[];
  #fed = 0;

  constructor({ request, work, shape, newId }: SearchStart) {
    const { end, start } = shape.tokens;
    this.request = request;
    this.candidates = Math.min(candidatesPerBeam(work.beams, end), shape.vocabSize);
    this.#work = work;
    this.#newId = newId;
    this.#search = new BeamSearch({ ...work, endTokens: end });
    this.#beams = [new Beam(this, newId(), request.prompt, start!)];
  }

  /** Empty once the search has ended. */
  get beams(): readonly Beam[] {
    return this.#beams;
  }

  /** Tokens that all beams were fed. */
  get fed(): number {
    return this.#fed;
  }

  /** Takes what a round picked for each of `beams`, in order. Throws nonfinite_output. */
  step(picked: readonly PickedToken[]): BeamChanges {
    const next = this.#search.step(this.#ranked(picked));
    this.#fed += picked.length;
    const before = this.#beams;
    const kept = new Set<Beam>();
    const forked: BeamChanges['forked'] = [];
    this.#beams = next.map(({ from: index, token }) => {
      const from = before[index]!;
      if (!kept.has(from)) {
        kept.add(from);
        from.nextToken = token;
        return from;
      }
      const beam = new Beam(this, this.#newId(), from.sequence, token);
      forked.push({ beam, from });
      return beam;
    });
    return { dropped: before.filter((beam) => !kept.has(beam)), forked, kept: [...kept] };
  }

  /** The tokens of the best texts, which are the choices of the request. Call it once the search has ended. */
  tokens(): GeneratedToken[] {
    return this.#search.hypotheses
      .slice(0, this.#work.best)
      .flatMap(({ tokens }, choice) => tokens.map((id) => ({ item: this.request.item, choice, id })));
  }

  #ranked(picked: readonly PickedToken[]): readonly (readonly RankedToken[])[] {
    const { forcedFirst } = this.#work;
    if (this.#fed === 0 && forcedFirst !== undefined) return [[{ id: forcedFirst, logprob: 0 }]];
    return picked.map((pick) => {
      tokenOf(pick);
      return pick.top;
    });
  }
}
