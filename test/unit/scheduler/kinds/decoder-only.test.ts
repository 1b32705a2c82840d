import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../../src/protocol/item-work.js';
import type { Sampling } from '../../../../src/protocol/sampling.js';
import { planScoring } from '../../../../src/scheduler/scoring.js';
import { bench, closeBench } from '../loop-bench.js';
import { DECODER_ONLY } from '../scripted-native-engine.js';
import { kindBench, tableOf } from './kind-bench.js';

afterEach(closeBench);

const generate = (maxTokens: number, choices: (Sampling | null)[] = [null]): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices };
};
const score = (labels: number[][]): ItemWork => ({ kind: 'score', plan: planScoring(labels, null, 1) });
const seeded = (seed: number): Sampling => {
  return { temperature: 1, topP: 1, minP: 0, topK: 0, seed: BigInt(seed) };
};
/** The scripted model's continuation: each token is the sum of all tokens before it, mod 16. */
function continued(prompt: number[], count: number): number[] {
  const tokens = [...prompt];
  while (tokens.length < prompt.length + count) tokens.push(tokens.reduce((a, b) => a + b, 0) % 16);
  return tokens.slice(prompt.length);
}
const long = (length: number) => Array.from({ length }, (_, i) => 2 + (i % 3));

describe('a prompt in chunks', () => {
  it('plans each of them with what its tokens and those of the next one need', () => {
    const { done, forecasts, hold, kind, start } = kindBench({ shape: DECODER_ONLY });
    // 40 tokens in passes of 32: the last eight need other experts than those before.
    const named = (first: number, rest: number) =>
      Array.from({ length: 40 }, (_, t) => (t < 32 ? first : rest));
    const table = tableOf([...named(0, 1), ...named(2, 3)], 2);
    start(hold([{ work: generate(1), tokens: long(40) }], [table]));
    while (done.length === 0) kind.step();
    const planned = forecasts.map(({ own, behind }) =>
      [own, behind].map((tables) => tables.flatMap(({ need }) => [...need])),
    );
    const of = (...experts: number[]) =>
      experts.flatMap((one) => [0, 1, 2, 3].map((id) => Number(id === one)));
    expect(planned).toEqual([
      [of(0, 2), of(1, 3)],
      [of(1, 3), []],
    ]);
  });
});

describe('generation', () => {
  it('picks the first token from the last row of the prompt, and ends at any end token', () => {
    const { engine, send, settle, tokensOf, of, clean } = bench(64, DECODER_ONLY);
    // 3 + 4 = 7, then 14, which is the second of two end tokens.
    send(
      { item: 1, job: 1, work: generate(9), tokens: [3, 4] },
      { item: 2, job: 2, work: generate(2), tokens: [5] },
    );
    settle();
    expect([tokensOf(1), tokensOf(2)]).toEqual([
      [7, 14],
      [5, 10],
    ]);
    expect(engine.calls.map(({ tokens }) => [...tokens])).toEqual([
      [3, 4, 5],
      [7, 5],
    ]);
    expect(of('done').map(({ item }) => item)).toEqual([1, 2]);
    clean();
  });

  it('runs a prompt longer than a pass in chunks, beside the steps of running generations', () => {
    const { engine, loop, send, settle, tokensOf, clean } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: generate(6), tokens: [2, 3] });
    loop.turn();
    send({ item: 2, job: 2, work: generate(1), tokens: long(70) });
    settle();
    expect(tokensOf(1)).toEqual(continued([2, 3], 6));
    expect(tokensOf(2)).toEqual(continued(long(70), 1));
    // 70 = 31 + 31 + 8, each chunk beside one step of the other generation.
    expect(engine.calls.slice(1, 4).map(({ offsets }) => [...offsets])).toEqual([
      [0, 1, 32],
      [0, 1, 32],
      [0, 1, 9],
    ]);
    clean();
  });

  it('gives each input the same answer alone and beside others', () => {
    const prompts = [long(3), long(40), long(17), [5], long(33)];
    const alone = prompts.map((tokens) => {
      const { send, settle, tokensOf } = bench(64, DECODER_ONLY);
      send({ item: 1, job: 1, work: generate(5), tokens });
      settle();
      closeBench();
      return tokensOf(1);
    });
    const { loop, send, settle, tokensOf, clean } = bench(200, DECODER_ONLY);
    prompts.forEach((tokens, item) => {
      send({ item, job: item, work: generate(5), tokens });
      loop.turn();
    });
    settle();
    expect(prompts.map((_, item) => tokensOf(item))).toEqual(alone);
    clean();
  });

  it('runs prompts in order of arrival', () => {
    const { engine, send, settle, of } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: generate(1), tokens: long(20) });
    send({ item: 2, job: 2, work: generate(1), tokens: long(20) });
    send({ item: 3, job: 3, work: generate(1), tokens: long(4) });
    settle();
    // The first pass has 20 tokens and 12 of 20, the second the other 8 and 4.
    expect(engine.calls.map(({ offsets }) => [...offsets])).toEqual([
      [0, 20, 32],
      [0, 8, 12],
    ]);
    expect(of('done').map(({ item }) => item)).toEqual([1, 2, 3]);
  });

  it('lets choices of a prompt share its pages, each with its own seed', () => {
    const { engine, send, settle, tokensOf, of, clean } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: generate(4, [seeded(2), seeded(5), null]), tokens: long(10) });
    settle();
    // The scripted sampler picks seed + position.
    expect(tokensOf(1, 0)).toEqual([12, 13, 14]);
    expect(tokensOf(1, 1)).toEqual([15, 0, 1]);
    expect(tokensOf(1, 2)).toEqual(continued(long(10), 4));
    expect(engine.calls[0]!.picks!.rows).toEqual(Int32Array.of(9, 9, 9));
    expect(of('done')).toHaveLength(1);
    // The prompt has 3 pages. Each choice shares 2 of them and has 2 of its own.
    expect(engine.peakPages).toBeLessThanOrEqual(3 + 3 * 2);
    clean();
  });

  it('starts inputs as pages become free, and counts shared pages once', () => {
    // The prompt has 3 pages, of which 2 are shared. Each choice has 2 of its own, so an input needs 7.
    const choices = [null, null];
    const { engine, send, settle, tokensOf, clean } = bench(8, DECODER_ONLY);
    send(...[1, 2, 3].map((item) => ({ item, job: item, work: generate(5, choices), tokens: long(9) })));
    settle();
    for (const item of [1, 2, 3]) {
      for (const choice of [0, 1]) expect(tokensOf(item, choice)).toEqual(continued(long(9), 5));
    }
    expect(engine.peakPages).toBeLessThanOrEqual(8);
    clean();
  });

  it('ends one choice early and continues the other', () => {
    const { loop, send, settle, control, tokensOf, of, clean } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: generate(4, [null, null]), tokens: [2, 3] });
    loop.turn();
    control.push({ type: 'stop', item: 1, choice: 0 });
    settle();
    expect([tokensOf(1, 0), tokensOf(1, 1)]).toEqual([continued([2, 3], 1), continued([2, 3], 4)]);
    expect(of('done')).toHaveLength(1);
    clean();
  });

  it('answers one whose logits are not finite with nonfinite_output, its neighbour with its result', () => {
    const { engine, send, settle, of, tokensOf, clean } = bench(64, DECODER_ONLY);
    engine.editRow = (row, tokens) => {
      if (tokens.includes(13)) row[7] = Number.NaN;
    };
    send(
      { item: 1, job: 1, work: generate(3), tokens: [13] },
      { item: 2, job: 2, work: generate(3), tokens: [2] },
    );
    settle();
    expect(of('job-error')).toMatchObject([
      { job: 1, error: { code: 'nonfinite_output', details: { token: 7 } } },
    ]);
    expect(tokensOf(2)).toEqual(continued([2], 3));
    clean();
  });

  it('drops a cancelled job in the middle of its prompt', () => {
    const { loop, send, settle, control, tokensOf, of, clean } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: generate(3), tokens: long(70) });
    loop.turn();
    control.push({ type: 'cancel', job: 1, lastBatch: 0 });
    send({ item: 2, job: 2, work: generate(3), tokens: [2] });
    settle();
    expect([tokensOf(1), tokensOf(2)]).toEqual([[], continued([2], 3)]);
    expect(of('done').map(({ item }) => item)).toEqual([2]);
    clean();
  });
});

describe('scoring', () => {
  const likely = Math.log(Math.exp(4) / (Math.exp(4) + 15));

  it('scores first tokens from the last row of the prompt, and forks the prompt for the others', () => {
    const { engine, send, settle, of, clean } = bench(64, DECODER_ONLY);
    // After [2, 3] the model expects 5, 10, 4, …
    send({ item: 1, job: 1, work: score([[5, 10, 4], [5, 9], [8]]), tokens: [2, 3] });
    settle();
    const [a, b, c] = of('done')[0]!.scores!;
    expect(a).toBeCloseTo(3 * likely, 10);
    expect(b).toBeCloseTo(2 * likely - 4, 10);
    expect(c).toBeCloseTo(likely - 4, 10);
    expect(engine.calls.map(({ tokens }) => [...tokens])).toEqual([
      [2, 3],
      [5, 10],
    ]);
    clean();
  });

  it('needs one pass if all labels have one token', () => {
    const { engine, send, settle, of, clean } = bench(64, DECODER_ONLY);
    send({ item: 1, job: 1, work: score([[5], [6]]), tokens: [2, 3] });
    settle();
    expect(engine.calls).toHaveLength(1);
    expect(of('done')[0]!.scores![0]).toBeCloseTo(likely, 10);
    clean();
  });

  it('gives the same scores in chunks and beside other inputs', () => {
    const labels = [long(40), [...long(39), 9], [5, 6]];
    const scores = (others: boolean) => {
      const { loop, send, settle, of, clean } = bench(400, DECODER_ONLY);
      if (others) send({ item: 2, job: 2, work: generate(30, [seeded(3), null]), tokens: long(5) });
      loop.turn();
      send({ item: 1, job: 1, work: score(labels), tokens: long(50) });
      settle();
      clean();
      closeBench();
      return of('done').find(({ item }) => item === 1)!.scores;
    };
    expect(scores(true)).toEqual(scores(false));
  });
});
