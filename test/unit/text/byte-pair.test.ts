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
  const word = 'a'.repeat(LETTERS);
  expect(pairs.merge(word, '').join('')).toBe(word);
  // Three loops over the letters, with a step for eight of them.
  expect(pauses).toBeGreaterThanOrEqual(3 * Math.floor(LETTERS / 8 / 1024));
});

it.each([
  ['a', '', ['a']],
  ['a', '</w>', ['a</w>']],
  ['ab', '', ['ab']],
  ['ab', '</w>', ['a', 'b</w>']],
  ['aab', '</w>', ['a', 'ab</w>']],
  ['🎬a\ud800b', '', ['🎬a', '\ud800', 'b']],
  ['a🎬', '</w>', ['a', '🎬</w>']],
])('merges %j with the end %j', (word, wordEnd, expected) => {
  const merges = [
    ['a', 'b'],
    ['🎬', 'a'],
    ...(wordEnd === '' || word !== 'aab' ? [] : [['a', `b${wordEnd}`]]),
  ];
  const pairs = new BytePair(merges, new Pace(() => undefined));
  expect(pairs.merge(word, wordEnd)).toEqual(expected);
});
