import { expect, it } from 'vitest';
import { BytePair } from '../../../src/text/tokenizing/byte-pair.js';
import { Pace } from '../../../src/text/tokenizing/pace.js';

const LETTERS = 65_536;

it.each([
  ['no pair of which can be merged', []],
  [
    'of which all are merged',
    [
      ['a', 'a'],
      ['aa', 'aa'],
    ],
  ],
])('pauses in a long word, %s, in proportion to it', (_, merges) => {
  let pauses = 0;
  const pairs = new BytePair(
    merges,
    new Pace(() => {
      pauses += 1;
    }),
  );
  const word = Array.from({ length: LETTERS }, () => 'a');
  expect(pairs.merge(word).join('')).toBe(word.join(''));
  // Two loops over the letters, with a step for eight of them.
  expect(pauses).toBeGreaterThanOrEqual(2 * Math.floor(LETTERS / 8 / 1024));
});
