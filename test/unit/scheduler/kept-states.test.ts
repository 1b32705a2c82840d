// What the prefix cache keeps of models with recurrent layers: states behind the ends of answers, near the ends of
// prompts, and where prompts part.
import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../src/protocol/item-work.js';
import { planScoring } from '../../../src/scheduler/scoring.js';
import { bench, closeBench } from './loop-bench.js';
import { DECODER_ONLY } from './scripted-native-engine.js';

afterEach(closeBench);

const generate = (maxTokens: number, choices = 1): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices: Array(choices).fill(null) };
};
const score = (labels: number[][]): ItemWork => ({ kind: 'score', plan: planScoring(labels, null, 1) });
const tokensFrom = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 2 + ((seed + i * i) % 11));

type Sent = Omit<Parameters<ReturnType<typeof bench>['send']>[0], 'item' | 'job'>;

/** Runs the inputs one after the other in `states` states. */
function inTurn(inputs: Sent[], states: number, prefixCache = true, pages = 200) {
  const { engine, send, settle, tokensOf, of } = bench(pages, DECODER_ONLY, prefixCache, states);
  const runs = inputs.map((input, item) => {
    const before = engine.calls.length;
    send({ ...input, item, job: item });
    settle();
    const computed = engine.calls.slice(before).reduce((sum, { tokens }) => sum + tokens.length, 0);
    const { scores, cachedTokens } = of('done').at(-1)!;
    return { tokens: [tokensOf(item, 0), tokensOf(item, 1)], scores, cached: cachedTokens, computed };
  });
  expect(engine.peakStates).toBeLessThanOrEqual(states);
  closeBench();
  return runs;
}

const answers = (runs: ReturnType<typeof inTurn>) => runs.map(({ tokens, scores }) => ({ tokens, scores }));
const cached = (runs: ReturnType<typeof inTurn>) => runs.map((run) => run.cached);

describe('recurrent states', () => {
  it('go on behind an answer, in a single state too', () => {
    const first = tokensFrom(3, 10);
    const answer = inTurn([{ tokens: first, work: generate(9) }], 1, false)[0]!.tokens[0]!;
    const inputs = [
      { tokens: first, work: generate(9) },
      { tokens: [...first, ...answer, 3, 4, 5], work: generate(2) },
    ];
    for (const states of [1, 4]) {
      const runs = inTurn(inputs, states);
      // The last token of an answer was never fed.
      expect(cached(runs)).toEqual([undefined, first.length + answer.length - 1]);
      expect(runs[1]!.computed).toBeLessThanOrEqual(5);
      expect(answers(runs)).toEqual(answers(inTurn(inputs, states, false)));
    }
  });

  it('go on near the end of a prompt whose last tokens a later one lacks', () => {
    const text = tokensFrom(1, 30);
    const inputs = [[...text, 3, 3, 3, 3, 3], [...text, 9, 9, 9, 4], text].map((tokens) => ({
      tokens,
      work: generate(3),
    }));
    // 35 tokens less 8 have 6 pages of 4 tokens.
    const runs = inTurn(inputs, 4);
    expect(cached(runs)).toEqual([undefined, 24, 24]);
    expect(runs[1]!.computed).toBeLessThanOrEqual(34 - 24 + 2);
    expect(answers(runs)).toEqual(answers(inTurn(inputs, 4, false)));
    // One state is the running sequence's, and the end of an answer takes it over.
    expect(cached(inTurn(inputs, 1))).toEqual([undefined, undefined, undefined]);
  });

  it('are kept where prompts part, for those that come later', () => {
    const shared = tokensFrom(2, 24);
    const inputs = [3, 4, 5, 6].map((id) => ({
      tokens: [...shared, ...Array(20).fill(id)],
      work: score([[3], [8]]),
    }));
    const runs = inTurn(inputs, 4);
    expect(cached(runs)).toEqual([undefined, undefined, 24, 24]);
    expect(answers(runs)).toEqual(answers(inTurn(inputs, 4, false)));
  });

  it('cost no pass where little is spared', () => {
    const { engine, send, settle } = bench(64, DECODER_ONLY, true, 4);
    send({ item: 0, job: 0, tokens: tokensFrom(1, 20), work: generate(1) });
    send({ item: 1, job: 1, tokens: tokensFrom(2, 23), work: generate(1), prefixScope: 'b' });
    settle();
    expect(engine.calls.map(({ tokens }) => tokens.length)).toEqual([32, 11]);
  });

  it('of other scopes are not used', () => {
    const inputs = ['a', 'b', 'a'].map((prefixScope) => ({
      tokens: tokensFrom(2, 40),
      work: generate(1),
      prefixScope,
    }));
    expect(cached(inTurn(inputs, 4))).toEqual([undefined, undefined, 32]);
  });

  it('give way, the least recently used first, when sequences need their room', () => {
    const [a, b] = [tokensFrom(0, 40), tokensFrom(5, 40)];
    // An input leaves two states. Three choices take four.
    const inputs = [a, b, a].map((tokens) => ({ tokens, work: generate(1) }));
    expect(cached(inTurn(inputs, 5))).toEqual([undefined, undefined, 32]);
    expect(cached(inTurn(inputs, 2))).toEqual([undefined, undefined, undefined]);
    const wide = [inputs[0]!, { tokens: tokensFrom(7, 6), work: generate(2, 3) }, inputs[0]!];
    expect(cached(inTurn(wide, 8))).toEqual([undefined, undefined, 32]);
    expect(cached(inTurn(wide, 4))).toEqual([undefined, undefined, undefined]);
  });

  it('let a generation that gave way go on where it was', () => {
    const { engine, send, settle, of, loop } = bench(18, DECODER_ONLY, true, 4);
    const prompts = [tokensFrom(0, 30), tokensFrom(4, 30)];
    const inputs = prompts.map((tokens) => ({ tokens, work: generate(20) }));
    inputs.forEach((input, item) => {
      send({ ...input, item, job: item, owner: String(item) });
    });
    settle();
    expect(loop.preemptions).toBeGreaterThan(0);
    expect(of('done')).toHaveLength(2);
    expect(engine.peakPages).toBeLessThanOrEqual(18);
    expect(engine.peakStates).toBeLessThanOrEqual(4);
  });

  it('change no answer at any order of many inputs in few states and pages', () => {
    const inputs = Array.from({ length: 60 }, (_, i) => ({
      tokens: tokensFrom((i * 7) % 5, 3 + ((i * 13) % 40)).concat(i % 3),
      work: i % 4 === 0 ? score([[3, 4], [5]]) : generate(1 + (i % 9), 1 + (i % 2)),
    }));
    const alone = answers(inTurn(inputs, 3, false));
    for (const [pages, states] of [
      [24, 3],
      [40, 4],
      [24, 9],
      [200, 20],
    ] as const) {
      const { engine, send, settle, tokensOf, of } = bench(pages, DECODER_ONLY, true, states);
      inputs.forEach((input, item) => {
        send({ ...input, item, job: item, owner: String(item % 3) });
        if (item % 7 === 0) settle(2000);
      });
      settle(2000);
      expect(engine.peakPages).toBeLessThanOrEqual(pages);
      expect(engine.peakStates).toBeLessThanOrEqual(states);
      expect(of('done')).toHaveLength(inputs.length);
      const found = inputs.map((_, item) => ({
        tokens: [tokensOf(item, 0), tokensOf(item, 1)],
        scores: of('done').find((done) => done.item === item)!.scores,
      }));
      const used = of('done').filter(({ cachedTokens = 0 }) => cachedTokens > 0).length;
      expect(used).toBeGreaterThanOrEqual(pages < 100 ? 0 : 3);
      closeBench();
      expect(found).toEqual(alone);
    }
  });
});
