import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { corrupt, sentinelsOf, WINDOW, windowsOf } from '../../../src/evaluation/span-corruption.js';
import { randomOf } from '../../../src/predictor/random.js';

const SENTINELS = [999, 998, 997, 996];
const END = 1;
const ids = fc.array(fc.integer({ min: 2, max: 900 }), { minLength: 1, maxLength: WINDOW });

/** Replaces the sentinels of the input by the spans of the target. */
function restored(input: number[], target: number[]): number[] {
  const spans = new Map<number, number[]>();
  for (const id of target.slice(0, -1)) {
    if (SENTINELS.includes(id)) spans.set(id, []);
    else spans.get([...spans.keys()].at(-1)!)!.push(id);
  }
  return input.slice(0, -1).flatMap((id) => spans.get(id) ?? [id]);
}

describe('span corruption', () => {
  it('hides at least one span, in order, and loses nothing', () => {
    fc.assert(
      fc.property(ids, fc.nat(1000), (text, seed) => {
        const { input, target } = corrupt(text, randomOf(seed), SENTINELS, END);
        expect(restored(input, target)).toEqual(text);
        const used = input.filter((id) => SENTINELS.includes(id));
        expect(used.length).toBeGreaterThan(0);
        expect(used).toEqual(SENTINELS.slice(0, used.length));
        expect([input.at(-1), target.at(-1)]).toEqual([END, END]);
      }),
    );
  });

  it('hides about 14 % of a long text', () => {
    const random = randomOf(3);
    const many = Array.from({ length: 400 }, () => Array.from({ length: WINDOW }, (_, i) => 2 + i));
    const sentinels = Array.from({ length: 60 }, (_, i) => 999 - i);
    const hidden = many.reduce((sum, text) => {
      const { target } = corrupt(text, random, sentinels, END);
      return sum + target.filter((id) => id !== END && !sentinels.includes(id)).length;
    }, 0);
    expect(hidden / (400 * WINDOW)).toBeGreaterThan(0.12);
    expect(hidden / (400 * WINDOW)).toBeLessThan(0.16);
  });

  it('cuts tokens into windows, and drops a short tail', () => {
    const tokens = Array.from({ length: 2 * WINDOW + 2 }, (_, i) => i);
    expect(windowsOf(tokens, WINDOW)).toEqual([tokens.slice(0, WINDOW), tokens.slice(WINDOW, 2 * WINDOW)]);
    expect(windowsOf(tokens.slice(0, 11), WINDOW)).toEqual([tokens.slice(0, 11)]);
    expect(windowsOf([1, 2, 3], WINDOW)).toEqual([]);
  });

  it('finds the sentinels of a vocabulary in order, and refuses a vocabulary without any', () => {
    const pieces = ['a', '<extra_id_1>', '<extra_id_0>', 'b', '<extra_id_3>'];
    expect(sentinelsOf(5, (id) => pieces[id]!)).toEqual([2, 1]);
    expect(() => sentinelsOf(1, () => 'a')).toThrow('no <extra_id_0>');
  });
});
