import { expect, it } from 'vitest';
import { describeMarkdown, describeText } from '../../../src/checkpoint/model-card.js';
import { TIMED } from '../../support/timed.js';

it.each([
  [
    'a heading, then prose',
    '# tiny\n\nIt knows nouns. It is small.\n\nMore.',
    'It knows nouns. It is small.',
  ],
  [
    'front matter, badges, HTML and a list',
    '---\nlicense: mit\n---\n<div align="center">\n  <img src="a.png">\n</div>\n\n[![badge](a.svg)](b)\n\n- one.\n\nGood at *maths*.',
    'Good at maths.',
  ],
  [
    'links, code, emphasis and names with underscores',
    'A **small** [OLMoE](https://a.b/c) with `d_model` 192 and d_ff 96,\n14.7 M parameters.',
    'A small OLMoE with d_model 192 and d_ff 96, 14.7 M parameters.',
  ],
  [
    'a table and code first',
    '| a | b |\n|---|---|\n| x. | y. |\n\n```\nrun it.\n```\n\nThen prose.',
    'Then prose.',
  ],
  ['more sentences than two', 'One. Two. Three.', 'One. Two.'],
  ['a second sentence that is too long', `One. ${'Two '.repeat(80)}.`, 'One.'],
  ['bold text first', '**OLMoE** is a model. It chats.\n\nBeware.', 'OLMoE is a model. It chats.'],
  ['a number first', '1.5B parameters. It chats.', '1.5B parameters. It chats.'],
  ['a fence within a fence', '````\n```\ncode.\n```\nsays hello.\n````\n\nProse.', 'Prose.'],
  ['words without a sentence', '# tiny\n\nModel card\n\nIt chats.', 'It chats.'],
])('describes a card with %s', (_, card, found) => {
  expect(describeMarkdown(card)).toBe(found);
});

it.each(['', '# tiny', `${'word '.repeat(80)}.`])('makes nothing of %j', (card) => {
  expect(describeMarkdown(card)).toBeUndefined();
});

it('takes time in proportion to the card', TIMED, () => {
  for (const piece of ['[', '<', '*', '`a', '![', '\n\n', '<!--', '_a ']) {
    const begin = performance.now();
    describeMarkdown(piece.repeat(64 * 1024));
    expect(performance.now() - begin, piece).toBeLessThan(1000);
  }
});

it('describes a plain text', () => {
  expect(describeText(' A model\nof *nouns*. It is small.')).toBe('A model of *nouns*. It is small.');
  expect(describeText('no sentence')).toBeUndefined();
});
