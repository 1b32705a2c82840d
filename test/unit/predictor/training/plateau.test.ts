import { describe, expect, it } from 'vitest';
import {
  endsAtPlateau,
  fallsOf,
  type LossAt,
  reachesPlateau,
} from '../../../../src/predictor/training/plateau.js';

const RULE = { until: 1, untilEpochs: 3, schedule: 'plateau' };

/** The epochs at which a run with these held-out losses, one per epoch, reaches a plateau until it ends. */
function plateaus(losses: readonly number[], rule = RULE): { epochs: number[]; ended: boolean } {
  const evaluations: LossAt[] = [];
  for (const [i, loss] of losses.entries()) {
    const evaluation: LossAt = { epoch: i + 1, heldOut: { loss } };
    if (reachesPlateau(rule, [...evaluations, evaluation])) evaluation.plateau = true;
    evaluations.push(evaluation);
    if (endsAtPlateau(rule, evaluations)) break;
  }
  const epochs = evaluations.filter(({ plateau }) => plateau).map(({ epoch }) => epoch);
  expect(fallsOf(evaluations)).toBe(epochs.length);
  return { epochs, ended: endsAtPlateau(rule, evaluations) };
}

describe('a plateau of the held-out loss', () => {
  it('is not reached while three epochs improve it by the share', () => {
    expect(plateaus([10, 9.9, 9.8, 9.7, 9.6, 9.5]).epochs).toEqual([]);
  });

  it('is reached after three epochs that improve it by less, and lowers the rate twice before the end', () => {
    const flat = new Array<number>(20).fill(10);
    expect(plateaus(flat)).toEqual({ epochs: [4, 7, 10], ended: true });
    expect(plateaus(flat, { ...RULE, schedule: 'constant' })).toEqual({ epochs: [4], ended: true });
    expect(plateaus(flat, { ...RULE, untilEpochs: 5 }).epochs).toEqual([6, 11, 16]);
  });

  it('is not reached again while a lower rate still improves the loss', () => {
    const losses = [10, 10, 10, 10, 9, 8.9, 8.8, 8.7, 8.69, 8.69, 8.69];
    expect(plateaus(losses)).toEqual({ epochs: [4, 11], ended: false });
  });

  it('counts the lowest loss, so that noise is no improvement and a rise is none either', () => {
    expect(plateaus([10, 11, 9.99, 12]).epochs).toEqual([4]);
    expect(plateaus([10, 10.5, 11, 11.5]).epochs).toEqual([4]);
    expect(plateaus([10, 10, 10, 9.8]).epochs).toEqual([]);
  });

  it('is looked for at the end of epochs alone, and never when the rule is off', () => {
    const middle = [1, 1.5, 2, 3, 4, 4.5].map((epoch) => ({ epoch, heldOut: { loss: 10 } }));
    const at = (count: number, until: number) => reachesPlateau({ ...RULE, until }, middle.slice(0, count));
    expect([at(4, 1), at(5, 1), at(6, 1), at(5, 0)]).toEqual([false, true, false, false]);
  });
});
