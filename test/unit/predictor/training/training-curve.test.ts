import { expect, it } from 'vitest';
import type { Evaluation } from '../../../../src/predictor/training/network-state.js';
import { trainingCurve } from '../../../../src/predictor/training/training-curve.js';

function evaluation(network: 'encoder' | 'decoder', step: number): Evaluation {
  const hits: [number, number, number] = [0.3 + step / 1000, 0.5, 0.6 + step / 1000];
  const heldOut = { loss: 100 / step, distillation: 1, crossEntropy: 1, hits, layers: [] };
  return { network, step, epoch: 1, seconds: 1, learningRate: 1, heldOut, best: true };
}

it('draws loss and hit rates of each network, with units', async () => {
  const evaluations = [evaluation('encoder', 100), evaluation('encoder', 200), evaluation('decoder', 100)];
  const both = await trainingCurve(evaluations, 1);
  expect(both).toMatch(/^<svg /);
  for (const text of [
    'encoder: loss',
    'decoder: hit rate, mean over layers',
    'optimizer steps',
    '% of tokens',
    'top-3, held out',
  ]) {
    expect(both).toContain(`>${text}</text>`);
  }
  expect(both).not.toContain('rate ÷ 10');
  expect(await trainingCurve([evaluation('encoder', 100)], 1)).not.toContain('decoder');
  const four = await trainingCurve([evaluation('decoder', 100)], 4);
  for (const text of ['recall@4, held out', 'recall@8, held out', '% of choices']) {
    expect(four).toContain(`>${text}</text>`);
  }
});

it('marks where the learning rate fell, and not where the training ended', () => {
  const [first, second, last] = [100, 200, 300].map((step) => evaluation('encoder', step));
  const curve = trainingCurve([first!, { ...second!, plateau: true }, { ...last!, plateau: true }], 1);
  expect(curve.match(/>rate ÷ 10<\/text>/g)).toHaveLength(1);
  expect(curve).toContain('stroke-dasharray');
});
