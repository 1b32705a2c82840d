/** A running beam search of one request: a sequence for each beam, and what passes pick for them. */
import type { ModelShape } from '../native/addon-types.js';
import type { GeneratedToken } from '../protocol/inference-messages.js';
import type { SearchWork } from '../protocol/item-work.js';
import type { RankedToken } from '../protocol/sampling.js';
import { BeamSearch, candidatesPerBeam } from './beam-search.js';
import type { RunningSequence } from './generation.js';
import { type PickedToken, type TokenPick, tokenOf } from './pass-batch.js';
import type { Request } from './request.js';

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
