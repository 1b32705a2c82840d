import { describe, expect, it } from 'vitest';
import {
  fittedOptions,
  ownOptions,
  resolveTrainingOptions,
} from '../../../../src/predictor/training/options.js';
import { candidatesOf } from '../../../../src/predictor/training/search.js';

describe('training options', () => {
  it("of lstm are the paper's network and loss unless others are given", () => {
    expect(resolveTrainingOptions('lstm', {})).toMatchObject({
      hidden: 256,
      layers: 2,
      attentionWeights: 'sparsemax',
      top: 30,
      lambda: 0.005,
      sharpness: 1,
      batch: 64,
      batchTokens: 0,
      distillation: 'kl',
      schedule: 'plateau',
      until: 0.1,
      untilEpochs: 3,
      bidirectional: false,
    });
    expect(resolveTrainingOptions('lstm', { lr: '1e-3', bidirectional: 'true' })).toMatchObject({
      lr: 1e-3,
      bidirectional: true,
    });
  });

  it('of 0 are replaced to fit the routers: k is their top-k, and a single choice gets a sharp teacher', () => {
    const attention = resolveTrainingOptions('attention', {});
    expect(fittedOptions(attention, { experts: 64, topK: 1 })).toMatchObject({
      k: 1,
      sharpness: 20,
      top: 30,
    });
    expect(fittedOptions(attention, { experts: 64, topK: 8 })).toMatchObject({ k: 8, sharpness: 1 });
    const given = resolveTrainingOptions('attention', { k: '2', sharpness: '3', top: '0' });
    expect(fittedOptions(given, { experts: 64, topK: 8 })).toMatchObject({ k: 2, sharpness: 3, top: 64 });
  });

  it.each([
    ['lstm', { blocks: '2' }, '--blocks is an option of --network attention, not of lstm'],
    ['attention', { layers: '1' }, '--layers is an option of --network lstm, not of attention'],
  ] as const)('of the other network are refused: %s %j', (network, given, message) => {
    expect(() => resolveTrainingOptions(network, given)).toThrow(message);
    for (const name of Object.keys(given)) {
      expect(ownOptions(network, resolveTrainingOptions(network, {}))).not.toHaveProperty(name);
    }
  });

  it.each([
    [{ distillation: 'none', lambda: '0' }, /leaves nothing to learn from/],
    [{ until: '0' }, /--schedule plateau needs an --until above 0/],
  ])('that do not go together are refused: %j', (given, message) => {
    expect(() => resolveTrainingOptions('lstm', given)).toThrow(message);
  });

  it.each([
    [{ lr: 'fast' }, /"--lr" option to be a number .* "fast"/],
    [{ hidden: '1.5' }, /"--hidden" option to be a whole number/],
    [{ distillation: 'l2' }, /"--distillation" option to be one of kl, none/],
    [{ heldOutShare: '1' }, /"--held-out-share"/],
  ])('are refused in the words of the flag: %j', (given, message) => {
    expect(() => resolveTrainingOptions('lstm', given)).toThrow(message);
  });
});

describe('a grid', () => {
  it('expands to every combination, on top of the given options', () => {
    const candidates = candidatesOf('hidden=16,32 bidirectional=false,true', 'lstm', { lr: '0.01' });
    expect(candidates.map(({ options }) => [options.hidden, options.bidirectional, options.lr])).toEqual([
      [16, false, 0.01],
      [16, true, 0.01],
      [32, false, 0.01],
      [32, true, 0.01],
    ]);
    expect(candidates[0]!.options.maxMinutes).toBe(2);
  });

  it.each(['hiden=16', 'hidden', 'hidden=', 'blocks=2', ''])(
    'is refused if it names no known option or no value: %j',
    (grid) => {
      expect(() => candidatesOf(grid, 'lstm', {})).toThrow('Expected --grid');
    },
  );
});
