import { expect, it } from 'vitest';
import { noCost } from '../../../../src/protocol/expert-cost.js';
import { expertsAnswer } from '../../../../src/tasks/shared/schema.js';

it.each([
  [7.412345678901234, 7.412],
  [0.1 + 0.2, 0.3],
  [1234.56789, 1234.568],
  [0.0004, 0],
  [0, 0],
])('answers a stall of %d ms with three decimals at most: %d', (stall_ms, rounded) => {
  const cost = { ...noCost(1), stall_ms, bytes: 5 };
  expect(JSON.stringify(expertsAnswer(cost).stall_ms)).toBe(String(rounded));
  expect(expertsAnswer(cost)).toMatchObject({ bytes_moved: 5, needed: 0 });
});
