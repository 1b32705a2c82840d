import { describe, expect, it } from 'vitest';
import { expertsOfStack } from '../../../src/predictor/hash-function.js';
import { probabilitiesOf, routerProbabilities } from '../../../src/predictor/router-probabilities.js';
import { TokenTableLearner } from '../../../src/predictor/training/token-table-learning.js';
import { ENCODER, recordsOf, SHAPE, TOP } from './routing-fixture.js';

function softmax(logits: number[]): number[] {
  const sum = logits.reduce((total, z) => total + Math.exp(z), 0);
  return logits.map((z) => Math.exp(z) / sum);
}

describe('router probabilities', () => {
  const all = [2, 1.4, 0.9, 0.6, 0.3, 0, -0.3, -0.6];

  it('are the softmax if every expert is recorded', () => {
    const out = new Float64Array(8);
    routerProbabilities(Float32Array.from([9, ...all]), 1, 8, 8, out);
    softmax(all).forEach((p, i) => {
      expect(out[i]).toBeCloseTo(p, 6);
    });
  });

  it('are exact if the other logits continue the slope of the recorded ones', () => {
    const out = new Float64Array(5);
    const unrecorded = routerProbabilities(Float32Array.from(all), 0, 5, 8, out);
    const truth = softmax(all);
    truth.slice(0, 5).forEach((p, i) => {
      expect(out[i]).toBeCloseTo(p, 6);
    });
    expect(unrecorded).toBeCloseTo((truth[5]! + truth[6]! + truth[7]!) / 3, 6);
  });

  it('are uniform for equal logits and for a single recorded logit', () => {
    for (const top of [1, 5]) {
      const out = new Float64Array(top);
      const unrecorded = routerProbabilities(new Float32Array(top).fill(3), 0, top, 8, out);
      for (const p of [...out, unrecorded]) expect(p).toBeCloseTo(1 / 8, 12);
    }
  });

  it('cover recorded and other experts, and sum to 1', () => {
    const [record] = recordsOf(1);
    const { tokens, experts, logits } = record!.stacks[ENCODER]!;
    const batch = { tokens, offsets: Int32Array.of(0, tokens.length), experts, logits, top: TOP };
    const sums = new Float64Array(3 * tokens.length);
    for (let e = 0; e < SHAPE.experts; e++) {
      const named = new Uint16Array(sums.length).fill(e);
      probabilitiesOf(named, 1, batch, expertsOfStack(SHAPE, ENCODER)).forEach((p, row) => {
        sums[row]! += p;
      });
    }
    for (const sum of sums) expect(sum).toBeCloseTo(1, 9);
  });

  it("make the token table's alpha a probability over all experts", () => {
    const learner = new TokenTableLearner(SHAPE);
    for (const record of recordsOf(60)) learner.add(record);
    const { alpha, width } = learner.finish(SHAPE.experts).stacks[ENCODER]!;
    expect(TOP).toBeLessThan(SHAPE.experts);
    for (let from = 0; from < alpha.length; from += width) {
      expect(alpha.subarray(from, from + width).reduce((sum, p) => sum + p, 0)).toBeCloseTo(1, 5);
    }
  });
});
