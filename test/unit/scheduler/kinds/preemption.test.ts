import { afterEach, describe, expect, it } from 'vitest';
import type { ItemWork } from '../../../../src/protocol/item-work.js';
import type { Sampling } from '../../../../src/protocol/sampling.js';
import { bench, closeBench } from '../loop-bench.js';
import { DECODER_ONLY } from '../scripted-native-engine.js';

/** Generations run to their length. */
const ENDLESS = { ...DECODER_ONLY, tokens: { ...DECODER_ONLY.tokens, end: [] } };

afterEach(closeBench);

const generate = (maxTokens: number, choices: (Sampling | null)[] = [null]): ItemWork => {
  return { kind: 'generate', maxTokens, logprobs: null, choices };
};
const seeded = (seed: number): Sampling => {
  return { temperature: 1, topP: 1, minP: 0, topK: 0, seed: BigInt(seed) };
};
const prompt = (item: number, length: number) =>
  Array.from({ length }, (_, i) => (i === 0 ? item % 16 : 2 + ((item * 5 + i * i) % 9)));
const INPUTS = Array.from({ length: 32 }, (_, item) => ({
  item,
  job: item,
  tokens: prompt(item, 3 + ((item * 7) % 20)),
  work: generate(20 + (item % 5), [item % 3 === 0 ? null : seeded(item)]),
}));

function alone(input: (typeof INPUTS)[number]): number[] {
  const { send, settle, tokensOf } = bench(64, ENDLESS);
  send(input);
  settle();
  closeBench();
  return tokensOf(input.item);
}
const ALONE = INPUTS.map(alone);

/** Runs all inputs at once, and returns what is left to look at. */
function crowd(pages: number, prefixCache: boolean) {
  const run = bench(pages, ENDLESS, prefixCache);
  run.send(...INPUTS);
  run.settle(3000);
  return run;
}

describe('generations in fewer pages than they need together', () => {
  it.each([
    [40, false],
    [40, true],
    [12, false],
    [12, true],
  ])('all end with the tokens that each has alone, in %i pages, prefix cache %s', (pages, prefixCache) => {
    const { engine, of, tokensOf, clean, loop } = crowd(pages, prefixCache);
    expect(of('done')).toHaveLength(INPUTS.length);
    expect(INPUTS.map(({ item }) => tokensOf(item))).toEqual(ALONE);
    expect(engine.peakPages).toBeLessThanOrEqual(pages);
    expect(loop.preemptions).toBeGreaterThan(0);
    if (!prefixCache) clean();
  });

  it('run more at a time than could hold their whole answers', () => {
    const { engine, loop, send } = bench(24, ENDLESS);
    // Each answer takes 11 pages in the end, and 2 at the start.
    send(
      ...[0, 1, 2, 3].map((item) => ({
        item,
        job: item,
        tokens: prompt(item, 4),
        work: generate(40, [seeded(1)]),
      })),
    );
    loop.turn();
    expect(engine.sequences.size).toBe(4);
  });

  it('let the youngest give way, and start no new input before it goes on', () => {
    const { loop, send, settle, of } = bench(12, ENDLESS);
    const work = generate(28, [seeded(2)]);
    send(...[0, 1, 2, 3].map((item) => ({ item, job: item, tokens: prompt(item, 4), work })));
    settle(500);
    expect(loop.preemptions).toBeGreaterThan(0);
    expect(of('done').map(({ item }) => item)).toEqual([0, 1, 2, 3]);
  });

  it('keep their place beside inputs that take all pages at once', () => {
    const { engine, send, settle, of, tokensOf } = bench(24, ENDLESS, true);
    const several = [null, seeded(4)];
    send(
      ...INPUTS.slice(0, 8).map((input) =>
        input.item % 2 === 0 ? input : { ...input, work: generate(9, several) },
      ),
    );
    settle(1000);
    expect(of('done')).toHaveLength(8);
    expect(engine.peakPages).toBeLessThanOrEqual(24);
    for (const item of [0, 2, 4, 6]) expect(tokensOf(item)).toEqual(ALONE[item]);
  });

  it('can be cancelled and stopped while they wait', () => {
    for (const message of ['cancel', 'stop'] as const) {
      const { loop, control, send, settle, of, clean } = bench(12, ENDLESS);
      const work = generate(28, [seeded(2)]);
      send(...[0, 1, 2].map((item) => ({ item, job: item, tokens: prompt(item, 4), work })));
      for (let turns = 0; turns < 50 && loop.preemptions === 0; turns++) loop.turn();
      if (message === 'cancel') control.push({ type: 'cancel', job: 2, lastBatch: 0 });
      else control.push({ type: 'stop', item: 2, choice: 0 });
      settle(500);
      const ended = message === 'cancel' ? [0, 1] : [2, 0, 1];
      expect(of('done').map(({ item }) => item)).toEqual(ended);
      clean();
      closeBench();
    }
  });

  it('report the prompt tokens that the cache had when they first started', () => {
    const { of } = crowd(12, true);
    for (const { item, cachedTokens = 0 } of of('done')) {
      expect(cachedTokens).toBeLessThan(INPUTS[item]!.tokens.length);
    }
  });
});

describe('keys that share too few pages', () => {
  const of = (owner: string, items: number[], length: number, maxTokens: number) =>
    items.map((item) => {
      return { item, job: item, owner, tokens: prompt(item, length), work: generate(maxTokens, [seeded(2)]) };
    });
  const many = [...Array(12).keys()];

  it.each([4, 20])('a key with one input need not wait for those of another, prompt of %i', (length) => {
    const { loop, send, settle, of: sent, clean } = bench(24, ENDLESS);
    send(...of('a', many, 4, 60));
    for (let turns = 0; turns < 100 && loop.preemptions < 3; turns++) loop.turn();
    send(...of('b', [20], length, 5));
    settle(3000);
    expect(sent('done').map(({ item }) => item)).toEqual([20, ...many]);
    clean();
  });

  it('an input of the same key waits behind those that gave way', () => {
    const { loop, send, settle, of: sent } = bench(24, ENDLESS);
    send(...of('a', many, 4, 60));
    for (let turns = 0; turns < 100 && loop.preemptions < 3; turns++) loop.turn();
    send(...of('a', [20], 4, 5));
    settle(3000);
    const ended = sent('done').map(({ item }) => item);
    // It ends before the last ones, because it is short.
    expect(ended.filter((item) => item !== 20)).toEqual(many);
    expect(ended.indexOf(20)).toBeGreaterThan(6);
  });

  it('a short input of the same key goes before longer ones that have not begun', () => {
    const { loop, send, settle, of: sent } = bench(80, ENDLESS);
    // Two choices reserve their pages, so none gives way.
    const reserving = (items: number[], steps: number, dueMs: number) =>
      of('a', items, 4, steps).map((each) => ({ ...each, dueMs, work: generate(steps, [null, seeded(1)]) }));
    send(...reserving(many, 60, 600));
    loop.turn();
    send(...reserving([20], 5, 700), ...reserving([21], 5, 50));
    settle(3000);
    const ended = sent('done').map(({ item }) => item);
    expect(ended.slice(0, 6)).toEqual([21, 0, 1, 2, 3, 4]);
    expect(ended).toHaveLength(14);
  });

  it.each([12, 24, 40])('all end with the tokens that each has alone, in %i pages', (pages) => {
    const { send, settle, of: sent, tokensOf, clean, engine } = bench(pages, ENDLESS);
    const owned = INPUTS.map((input) => ({ ...input, owner: 'abbccccc'[input.item % 8]! }));
    for (let at = 0; at < owned.length; at += 8) send(...owned.slice(at, at + 8));
    settle(5000);
    expect(sent('done')).toHaveLength(INPUTS.length);
    expect(INPUTS.map(({ item }) => tokensOf(item))).toEqual(ALONE);
    expect(engine.peakPages).toBeLessThanOrEqual(pages);
    clean();
  });

  it('jobs that are cancelled while they wait leave the others their turns', () => {
    const { loop, control, send, settle, of: sent, clean } = bench(24, ENDLESS);
    send(...of('a', many, 4, 60));
    for (let turns = 0; turns < 100 && loop.preemptions < 3; turns++) loop.turn();
    for (const job of many.slice(4)) control.push({ type: 'cancel', job, lastBatch: 0 });
    send(...of('b', [20, 21], 4, 5));
    settle(3000);
    expect(sent('done').map(({ item }) => item)).toEqual([20, 21, 0, 1, 2, 3]);
    clean();
  });
});
