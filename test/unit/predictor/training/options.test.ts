import { describe, expect, it } from 'vitest';
import { fittedOptions, resolveTrainingOptions } from '../../../../src/predictor/training/options.js';
import { candidatesOf } from '../../../../src/predictor/training/search.js';

describe('training options', () => {
  it("are the paper's unless others are given", () => {
    expect(resolveTrainingOptions('paper', {})).toMatchObject({
      top: 30,
      lambda: 0.005,
      lr: 5e-5,
      batch: 64,
      distillation: 'kl',
      schedule: 'constant',
      bidirectional: false,
      positions: false,
    });
    expect(resolveTrainingOptions('paper', { lr: '1e-3', bidirectional: 'true' })).toMatchObject({
      lr: 1e-3,
      bidirectional: true,
    });
  });

  it('of 0 are replaced to fit the routers: k is their top-k, and a single choice gets a sharp teacher', () => {
    const recommended = resolveTrainingOptions('recommended', {});
    expect(fittedOptions(recommended, 1)).toMatchObject({ k: 1, sharpness: 20 });
    expect(fittedOptions(recommended, 8)).toMatchObject({ k: 8, sharpness: 1 });
    const given = resolveTrainingOptions('recommended', { k: '2', sharpness: '3' });
    expect(fittedOptions(given, 8)).toMatchObject({ k: 2, sharpness: 3 });
  });

  it.each([
    [{ lr: 'fast' }, /"--lr" option to be a number .* "fast"/],
    [{ hidden: '1.5' }, /"--hidden" option to be a whole number/],
    [{ distillation: 'l2' }, /"--distillation" option to be one of kl, l1/],
    [{ heldOutShare: '1' }, /"--held-out-share"/],
  ])('are refused in the words of the flag: %j', (given, message) => {
    expect(() => resolveTrainingOptions('paper', given)).toThrow(message);
  });
});

describe('a grid', () => {
  it('expands to every combination, on top of the given options', () => {
    const candidates = candidatesOf('hidden=16,32 bidirectional=false,true', 'paper', { lr: '0.01' });
    expect(candidates.map(({ options }) => [options.hidden, options.bidirectional, options.lr])).toEqual([
      [16, false, 0.01],
      [16, true, 0.01],
      [32, false, 0.01],
      [32, true, 0.01],
    ]);
    expect(candidates[0]!.options.maxMinutes).toBe(2);
  });

  it.each(['hiden=16', 'hidden', 'hidden=', ''])(
    'is refused if it names no known option or no value: %j',
    (grid) => {
      expect(() => candidatesOf(grid, 'paper', {})).toThrow('Expected --grid');
    },
  );
});
