import { describe, expect, it } from 'vitest';
import type { Engine, NativeBatch, RunResult } from '../../../dist/native/addon-types.js';
import { randomOf } from '../../../dist/predictor/random.js';
import { cut } from '../../src/studies/corruption.js';
import { measureDependency } from '../../src/studies/dependency.js';

const END = 1;

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
  const options = { shares: [0.1, 0.3, 0.6], seed: 1 };

  it.each([0, 1, 3])('with %i critical tokens is what equation 2 says', (critical) => {
    const { corruption, swaps, controls } = measureDependency(engineWith(critical), inputs, options);
    for (const { changed, equation } of [...corruption, ...swaps]) {
      const expected = critical === 0 ? 0 : equation!.expected[critical - 1]!;
      expect(Math.abs(changed[0]! - expected)).toBeLessThan(0.07);
      // Near 1 the numbers hardly differ.
      if (expected < 0.9) expect(equation!.nearest[0]).toBe(critical);
    }
    expect(controls.again.changed).toEqual([0]);
    expect(controls.anotherToken.changed[0]).toBeGreaterThan(0.95);
  });
});
