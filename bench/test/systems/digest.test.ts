import { describe, expect, it } from 'vitest';
import { answersOf } from '../../src/systems/digest.js';

describe('answersOf', () => {
  it('has one character for each sentence, whichever of 25 labels it got', () => {
    const scoresOf = (best: number) => Array.from({ length: 25 }, (_, label) => (label === best ? -1 : -2));
    const best = [0, 9, 10, 24, 1];
    const { answers, rightLabels } = answersOf(best.map(scoresOf), [0, 9, 10, 23, 1]);
    expect(answers).toHaveLength(best.length);
    expect([...answers].map((one) => Number.parseInt(one, 36))).toEqual(best);
    expect(rightLabels).toBe(4);
  });
});
