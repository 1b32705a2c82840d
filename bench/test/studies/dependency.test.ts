import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Engine, NativeBatch, RunResult } from '../../../dist/native/addon-types.js';
import { randomOf } from '../../../dist/predictor/random.js';
import { corrupt, cut, swap } from '../../src/studies/corruption.js';
import { measureDependency } from '../../src/studies/dependency.js';

const END = 1;
const inputs = fc.uniqueArray(fc.integer({ min: 10, max: 500 }), { minLength: 2, maxLength: 40 });

describe('corrupt', () => {
  it('replaces its share of the tokens, never the end token, and leaves one to look at', () => {
    fc.assert(
      fc.property(inputs, fc.double({ min: 0.01, max: 1, noNaN: true }), fc.nat(), (words, share, seed) => {
        const tokens = Int32Array.from([...words, END]);
        const { corrupted, kept } = corrupt(tokens, share, randomOf(seed), (than) => than + 1000);
        const changed = words.filter((word, t) => corrupted[t] !== word).length;
        expect(changed).toBe(words.length - kept.length);
        expect(changed).toBe(Math.min(words.length - 1, Math.max(1, Math.round(share * (words.length - 1)))));
        expect(kept.every((t) => corrupted[t] === tokens[t])).toBe(true);
        expect(corrupted.at(-1)).toBe(END);
        expect(kept.length).toBeGreaterThanOrEqual(1);
      }),
    );
  });

  it('is the same for the same seed and does not touch its input', () => {
    const tokens = Int32Array.of(5, 6, 7, 8, END);
    const once = corrupt(tokens, 0.5, randomOf(3), () => 99);
    expect(corrupt(tokens, 0.5, randomOf(3), () => 99)).toEqual(once);
    expect([...tokens]).toEqual([5, 6, 7, 8, END]);
  });
});

describe('swap', () => {
  it('moves its share of the tokens, each to the place of another, never the end token', () => {
    const words = fc.uniqueArray(fc.integer({ min: 10, max: 500 }), { minLength: 3, maxLength: 40 });
    fc.assert(
      fc.property(words, fc.double({ min: 0.01, max: 1, noNaN: true }), fc.nat(), (list, share, seed) => {
        const tokens = Int32Array.from([...list, END]);
        const { corrupted, kept } = swap(tokens, share, randomOf(seed));
        const moved = list.filter((word, t) => corrupted[t] !== word).length;
        expect(moved).toBe(list.length - kept.length);
        expect(moved).toBe(Math.min(list.length - 1, Math.max(2, Math.round(share * (list.length - 1)))));
        expect(kept.every((t) => corrupted[t] === tokens[t])).toBe(true);
        expect([...corrupted].sort()).toEqual([...tokens].sort());
        expect(corrupted.at(-1)).toBe(END);
      }),
    );
  });
});

describe('cut', () => {
  it('joins inputs into some of one length, each with the end token behind it', () => {
    const inputs = [Int32Array.of(5, 6, END), Int32Array.of(7, END), Int32Array.of(8, 9, 10, END)];
    expect(cut(inputs, 3).map((tokens) => [...tokens])).toEqual([
      [5, 6, END],
      [7, 8, END],
      [9, 10, END],
    ]);
    // What is left over is no input.
    expect(cut(inputs, 5).map((tokens) => [...tokens])).toEqual([[5, 6, 7, 8, END]]);
    expect(cut([], 5)).toEqual([]);
  });
});

const EXPERTS = 101;

/** One MoE layer whose expert for a token is decided by that token and the `critical` words behind it, in a ring. */
function engineWith(critical: number): Engine {
  const runBatch = ({ tokens }: NativeBatch): RunResult => {
    const words = tokens.length - 1;
    const routerLogits = new Float32Array(tokens.length * EXPERTS);
    const dispatch = Uint16Array.from(tokens, (token, t) => {
      let sum = token;
      if (t < words) for (let c = 1; c <= critical; c++) sum += (c + 1) * tokens[(t + c) % words]!;
      return sum % EXPERTS;
    });
    dispatch.forEach((expert, t) => {
      routerLogits[t * EXPERTS + expert] = 1;
    });
    return { layers: Int32Array.of(0), dispatch, routerLogits } as unknown as RunResult;
  };
  const shape = {
    ...{ topK: 1, experts: EXPERTS, normalized: false, sigmoid: false, moeLayers: ['encoder.1'] },
    stacks: [{ causal: false, moeLayers: [0] }],
  };
  return { shape, runBatch, releaseSequences: () => {} } as unknown as Engine;
}

describe('the dependency of a model that is known', () => {
  const random = randomOf(7);
  const inputs = Array.from({ length: 24 }, () =>
    Int32Array.from([...Array.from({ length: 60 }, () => 2 + Math.floor(random() * 5000)), END]),
  );
  const options = { shares: [0.1, 0.3, 0.6], swaps: true, singles: 2, seed: 1, onProgress: async () => {} };

  it.each([0, 1, 3])('with %i critical tokens is what equation 2 says', async (critical) => {
    const { corruption, swaps, controls } = await measureDependency(engineWith(critical), inputs, options);
    for (const { changed, equation } of [...corruption, ...swaps!]) {
      const expected = critical === 0 ? 0 : equation!.expected[critical - 1]!;
      expect(Math.abs(changed[0]! - expected)).toBeLessThan(0.07);
      // Near 1 the numbers hardly differ.
      if (expected < 0.9) expect(equation!.nearest[0]).toBe(critical);
    }
    expect(controls!.again.changed).toEqual([0]);
    expect(controls!.anotherToken.changed[0]).toBeGreaterThan(0.95);
  });

  it('has no equation where tokens do not see those behind them', async () => {
    const engine = engineWith(1);
    const causal = {
      ...engine,
      shape: { ...engine.shape, stacks: [{ ...engine.shape.stacks[0]!, causal: true }] },
    };
    const { corruption, swaps } = await measureDependency(causal as Engine, inputs, {
      ...options,
      swaps: false,
    });
    expect(corruption.every(({ equation }) => equation === undefined)).toBe(true);
    expect(swaps).toBeUndefined();
  });
});
