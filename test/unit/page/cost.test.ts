import { expect, it } from 'vitest';
import { speedOf, speedText } from '../../../src/page/cost.js';

it('tells a speed only of answers that are long enough', () => {
  expect(speedOf({ tokens: 11, restSeconds: 0.5 })).toBe(20);
  // They came in one piece.
  expect(speedOf({ tokens: 5, restSeconds: 0.003 })).toBeUndefined();
  expect(speedOf({ tokens: 40, restSeconds: 0.003 })).toBeUndefined();
  expect([speedText(20), speedText(2.34)]).toEqual(['20', '2.3']);
});
