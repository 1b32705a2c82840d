import { expect, it } from 'vitest';
import { priceText } from '../../../src/page/price.js';

const quoted = { seconds: { p50: 1.5, p90: 12 }, bytes_moved: { p50: 3 * 2 ** 20 }, measured_answers: 5 };

it('tells the time of half and of nearly all answers, and what is loaded', () => {
  expect(priceText(quoted)).toBe('About 1.50 s, 3.0 MiB to load; 12.0 s at most in 9 of 10 answers.');
  expect(priceText({ ...quoted, bytes_moved: { p50: 0 } })).toBe(
    'About 1.50 s; 12.0 s at most in 9 of 10 answers.',
  );
});

it('tells nothing that was not measured', () => {
  expect(priceText({ ...quoted, measured_answers: 0 })).toBeUndefined();
});
