import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../src/protocol/item-work.js';
import { planScoring } from '../../../src/scheduler/scoring.js';
import { bench, closeBench } from './loop-bench.js';
import { DECODER_ONLY, PAGE_TOKENS } from './scripted-native-engine.js';

afterEach(closeBench);

const generate = (maxTokens: number, choices = 1): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices: Array(choices).fill(null) };
};
const score = (labels: number[][]): ItemWork => ({ kind: 'score', plan: planScoring(labels, null, 1) });
/** No sum of them is an end token for long. */
const tokensFrom = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 2 + ((seed + i * i) % 11));

type Sent = Parameters<ReturnType<typeof bench>['send']>[0];

/** Runs the inputs one after the other, and returns the tokens of each and what the passes computed for it. */
function inTurn(inputs: Omit<Sent, 'item' | 'job'>[], prefixCache: boolean, pages = 64) {
  const { engine, send, settle, tokensOf, of } = bench(pages, DECODER_ONLY, prefixCache);
  const runs = inputs.map((input, item) => {
    const before = engine.calls.length;
    send({ ...input, item, job: item });
    settle();
    const computed = engine.calls.slice(before).reduce((sum, { tokens }) => sum + tokens.length, 0);
    const done = of('done').at(-1)!;
    return {
      tokens: [tokensOf(item, 0), tokensOf(item, 1)],
      scores: done.scores,
      cached: done.cachedTokens,
      computed,
    };
  });
  closeBench();
  return { runs, engine };
}

const answers = (inputs: Omit<Sent, 'item' | 'job'>[], prefixCache: boolean, pages?: number) =>
  inTurn(inputs, prefixCache, pages).runs.map(({ tokens, scores }) => ({ tokens, scores }));

describe('the prefix cache', () => {
  it('computes only what follows the pages that an earlier prompt had', () => {
    const tokens = tokensFrom(0, 18);
    const inputs = [tokens, tokens, [...tokens.slice(0, 9), 5, 5, 5]].map((tokens) => ({
      tokens,
      work: generate(1),
    }));
    const { runs } = inTurn(inputs, true);
    // 18 tokens have 4 full pages of 4 tokens and a tail; the third input shares 9 tokens, which have 2 full pages.
    expect(runs.map(({ cached }) => cached)).toEqual([undefined, 17, 8]);
    expect(runs.map(({ computed }) => computed)).toEqual([18, 1, 4]);
    expect(answers(inputs, true)).toEqual(answers(inputs, false));
  });

  it('always computes the last token of a prompt', () => {
    const inputs = [1, 2].map(() => ({ tokens: tokensFrom(1, 8), work: generate(1) }));
    expect(inTurn(inputs, true).runs.map(({ computed }) => computed)).toEqual([8, 4]);
    expect(answers(inputs, true)).toEqual(answers(inputs, false));
  });

  it('has the pages of answers, so that a conversation goes on where it ended', () => {
    const first = tokensFrom(3, 10);
    const [answer] = answers([{ tokens: first, work: generate(9) }], false)[0]!.tokens;
    const next = [...first, ...answer!, 3, 4, 5];
    const inputs = [
      { tokens: first, work: generate(9) },
      { tokens: next, work: generate(2) },
    ];
    const { runs } = inTurn(inputs, true);
    // The last token of an answer was never fed.
    expect(runs[1]!.cached).toBe(first.length + answer!.length - 1);
    expect(answers(inputs, true)).toEqual(answers(inputs, false));
  });

  it('serves scored inputs and several choices too', () => {
    const tokens = tokensFrom(5, 13);
    const inputs = [
      { tokens, work: score([[3, 4], [3, 9], [8]]) },
      { tokens, work: score([[3, 4], [3, 9], [8]]) },
      { tokens, work: generate(6, 2) },
      { tokens: [...tokens, 7], work: generate(6, 2) },
    ];
    const { runs } = inTurn(inputs, true);
    expect(runs.map(({ cached }) => cached)).toEqual([undefined, 12, 12, 12]);
    expect(answers(inputs, true)).toEqual(answers(inputs, false));
  });

  it('keeps scopes apart', () => {
    const tokens = tokensFrom(2, 12);
    const inputs = ['a', 'b', 'a'].map((prefixScope) => ({ tokens, work: generate(1), prefixScope }));
    expect(inTurn(inputs, true).runs.map(({ cached }) => cached)).toEqual([undefined, undefined, 8]);
  });

  it('gives up the least recently used pages when an input needs them', () => {
    const [a, b] = [tokensFrom(0, 17), tokensFrom(4, 17)];
    // An input holds 5 pages of 12 and leaves them.
    const inputs = [a, b, a, tokensFrom(7, 29), a, b].map((tokens) => ({ tokens, work: generate(1) }));
    const { runs, engine } = inTurn(inputs, true, 12);
    // The fourth input takes 8 pages: those of b, which were used before a's.
    expect(runs.map(({ cached }) => cached)).toEqual([undefined, undefined, 16, undefined, 16, undefined]);
    expect(engine.peakPages).toBeLessThanOrEqual(12);
    expect(answers(inputs, true, 12)).toEqual(answers(inputs, false, 12));
  });

  it('gives up the end of a kept answer before its beginning', () => {
    const long = tokensFrom(0, 33);
    const inputs = [long, tokensFrom(6, 17), long].map((tokens) => ({ tokens, work: generate(1) }));
    const { runs } = inTurn(inputs, true, 10);
    // 9 pages are kept, and the second input needs 5 of 10.
    expect(runs[2]!.cached).toBe(5 * PAGE_TOKENS);
    expect(answers(inputs, true, 10)).toEqual(answers(inputs, false, 10));
  });

  it('holds one copy of pages that concurrent inputs computed each for themselves', () => {
    const tokens = tokensFrom(8, 21);
    const { engine, send, settle, tokensOf } = bench(64, DECODER_ONLY, true);
    send(...[0, 1, 2].map((item) => ({ item, job: item, work: generate(3), tokens: [...tokens, item + 2] })));
    settle();
    const alone = answers(
      [0, 1, 2].map((i) => ({ work: generate(3), tokens: [...tokens, i + 2] })),
      false,
    );
    expect([0, 1, 2].map((item) => tokensOf(item))).toEqual(alone.map(({ tokens: [first] }) => first));
    const whole = new Set([...engine.sequences.values()].map(({ pages }) => pages.slice(0, 5).join()));
    expect(whole.size).toBe(1);
  });

  it('gives the same answers at any order of many inputs in few pages', () => {
    const inputs = Array.from({ length: 60 }, (_, i) => ({
      tokens: tokensFrom((i * 7) % 5, 3 + ((i * 13) % 40)).concat(i % 3),
      work: i % 4 === 0 ? score([[3, 4], [5]]) : generate(1 + (i % 9), 1 + (i % 2)),
    }));
    for (const pages of [24, 40, 200]) {
      const { engine, send, settle, tokensOf, of } = bench(pages, DECODER_ONLY, true);
      inputs.forEach((input, item) => {
        send({ ...input, item, job: item });
        if (item % 7 === 0) settle();
      });
      settle();
      expect(engine.peakPages).toBeLessThanOrEqual(pages);
      expect(of('done')).toHaveLength(inputs.length);
      const found = inputs.map((_, item) => ({
        tokens: [tokensOf(item, 0), tokensOf(item, 1)],
        scores: of('done').find((done) => done.item === item)!.scores,
      }));
      closeBench();
      expect(found).toEqual(answers(inputs, false));
    }
  });
});
