import { describe, expect, it } from 'vitest';
import type { BeamSettings } from '../../../src/protocol/item-work.js';
import { BeamSearch, candidatesPerBeam } from '../../../src/scheduler/beam-search.js';

interface Limits extends BeamSettings {
  maxTokens: number;
  endTokens: readonly number[];
}

/** The log-probabilities of all tokens after a text. */
type Model = (tokens: readonly number[]) => number[];

interface Found {
  tokens: readonly number[];
  score: number;
}

/** Searches as a pass would: each beam names only as many tokens as the search asks for. */
function search(model: Model, limits: Limits): { found: readonly Found[]; steps: number } {
  const beams = new BeamSearch(limits);
  const names = candidatesPerBeam(limits.beams, limits.endTokens);
  let running: number[][] = [[]];
  let steps = 0;
  for (; running.length > 0; steps++) {
    const next = beams.step(
      running.map((tokens) => {
        const ranked = model(tokens).map((logprob, id) => ({ id, logprob }));
        return ranked.sort((a, b) => b.logprob - a.logprob || a.id - b.id).slice(0, names);
      }),
    );
    running = next.map(({ from, token }) => [...running[from]!, token]);
  }
  return { found: beams.hypotheses, steps };
}

const NEVER = -1e9;
const f = Math.fround;

/**
 * The reference: `_beam_search` of transformers line by line for one input, over all tokens of all beams, with masks
 * of -1e9 in place of lists that shrink.
 */
function reference(model: Model, { beams, lengthPenalty, earlyStopping, maxTokens, endTokens }: Limits) {
  const top = <T extends { score: number }>(list: T[], count: number) =>
    [...list].sort((a, b) => b.score - a.score).slice(0, count);
  let running = Array.from({ length: beams }, (_, i) => ({
    tokens: [] as number[],
    score: i === 0 ? 0 : NEVER,
  }));
  let ended = Array.from({ length: beams }, () => ({ tokens: [] as number[], score: NEVER, done: false }));
  let improvable = true;
  for (let length = 1; ; length++) {
    const all = running.flatMap(({ tokens, score }) =>
      model(tokens).map((logprob, id) => ({ tokens: [...tokens, id], score: f(f(logprob) + score) })),
    );
    const candidates = top(all, Math.max(2, 1 + endTokens.length) * beams).map((candidate) => {
      return { ...candidate, hits: length === maxTokens || endTokens.includes(candidate.tokens.at(-1)!) };
    });
    running = top(
      candidates.map(({ tokens, score, hits }) => ({ tokens, score: hits ? f(score + NEVER) : score })),
      beams,
    );
    const full = ended.every(({ done }) => done);
    const closed = (full && earlyStopping === true) || !improvable;
    const merged = candidates.map(({ tokens, score, hits }, i) => {
      const done = hits && i < beams;
      const scaled = f(score / f(length ** lengthPenalty));
      return { tokens, done, score: f(scaled + (closed ? NEVER : 0) + (done ? 0 : NEVER)) };
    });
    ended = top([...ended, ...merged], beams);
    const reach = earlyStopping === 'never' && lengthPenalty > 0 ? maxTokens : length;
    const best = f(running[0]!.score / f(reach ** lengthPenalty));
    const worst = Math.min(...ended.map(({ score }) => score));
    improvable &&= ended.some(({ done }) => best > (done ? worst : f(NEVER)));
    const open = !(ended.every(({ done }) => done) && earlyStopping === true);
    if (!improvable || !open || candidates.every(({ hits }) => hits)) {
      return { found: ended.map(({ tokens, score }) => ({ tokens, score })), steps: length };
    }
  }
}

const VOCAB = 40;

/** Log-probabilities that depend on the last two tokens and the length. Coarse ones are often equal. */
function randomModel(seed: number, coarse: boolean): Model {
  return (tokens) => {
    let state = seed * 7919 + (tokens.at(-1) ?? 0) * 31 + (tokens.at(-2) ?? 0) * 17 + tokens.length;
    const logits = Array.from({ length: VOCAB }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      const number = ((state >>> 8) / 2 ** 24) * 6;
      return coarse ? Math.round(number) / 2 : number;
    });
    const sum = Math.log(logits.reduce((total, logit) => total + Math.exp(logit), 0));
    return logits.map((logit) => (coarse ? logit - 4 : logit - sum));
  };
}

const PENALTIES = [1, 0, 2, -1, 0.6];
const EARLY = [false, true, 'never'] as const;

describe('a beam search gives the texts and scores of the plain reference', () => {
  for (const earlyStopping of EARLY) {
    it.each(PENALTIES)(`with early stopping ${earlyStopping} and length penalty %d`, (lengthPenalty) => {
      for (let seed = 1; seed <= 60; seed++) {
        const endTokens = [[], [3], [3, 11]][seed % 3]!;
        const beams = 2 + (seed % 4);
        const limits = { beams, lengthPenalty, earlyStopping, endTokens, maxTokens: 1 + (seed % 9) };
        const model = randomModel(seed, seed % 2 === 0);
        expect(search(model, limits), `seed ${seed}`).toEqual(reference(model, limits));
      }
    });
  }
});

const limits: Limits = { beams: 2, lengthPenalty: 1, earlyStopping: false, maxTokens: 4, endTokens: [1] };
const ranked = (...tokens: [id: number, logprob: number][]) =>
  tokens.map(([id, logprob]) => ({ id, logprob }));

it('asks for enough tokens that all beams go on though each may end in any end token', () => {
  expect(candidatesPerBeam(4, [])).toBe(8);
  expect(candidatesPerBeam(4, [1])).toBe(8);
  expect(candidatesPerBeam(4, [1, 2])).toBe(12);
});

it('ends only candidates that are among the best, and goes on with the others', () => {
  const beams = new BeamSearch(limits);
  const next = beams.step([ranked([5, -1], [6, -2], [1, -3], [7, -4])]);
  expect(next).toMatchObject([
    { from: 0, token: 5 },
    { from: 0, token: 6 },
  ]);
  expect(beams.hypotheses).toEqual([]);
  beams.step([ranked([1, -0.5], [8, -1], [9, -5], [2, -6]), ranked([1, -4], [8, -5], [9, -6], [2, -7])]);
  expect(beams.hypotheses).toEqual([{ tokens: [5, 1], score: -0.75 }]);
});

it('gives ties to the earlier beam, and within a beam to the first token', () => {
  const beams = new BeamSearch(limits);
  beams.step([ranked([5, -1], [6, -1], [7, -1], [8, -1])]);
  const next = beams.step([
    ranked([3, -2], [4, -2], [5, -2], [6, -2]),
    ranked([3, -2], [4, -2], [5, -2], [6, -2]),
  ]);
  expect(next).toMatchObject([
    { from: 0, token: 3 },
    { from: 0, token: 4 },
  ]);
});

it('ends with what it has when nothing can go on', () => {
  const beams = new BeamSearch(limits);
  expect(beams.step([ranked([1, 0])])).toEqual([]);
  expect(beams.hypotheses).toEqual([{ tokens: [1], score: 0 }]);
});

it('counts a forced first token and the end token in the length, and not the start token', () => {
  const beams = new BeamSearch({ ...limits, earlyStopping: true });
  beams.step([ranked([9, 0])]);
  beams.step([ranked([1, -1], [5, -2], [6, -3], [7, -4])]);
  expect(beams.hypotheses).toEqual([{ tokens: [9, 1], score: -0.5 }]);
});
