import { expect, it } from 'vitest';
import { BytePair } from '../../../src/text/tokenizing/byte-pair.js';

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
  const pairs = new BytePair(merges);
  expect(pairs.merge(word, wordEnd)).toEqual(expected);
});
