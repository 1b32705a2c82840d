import { expect, it } from 'vitest';
import { Tokenizer } from '../../../src/text/tokenizer.js';
import { withBeginToken } from '../../../src/text/tokenizing/begin-token.js';
import { byteTokenizer } from '../../support/byte-tokenizer.js';

const BEGIN = 3;
const FILE = byteTokenizer(2) as { added_tokens: object[] };
const own = {
  id: BEGIN,
  content: '<begin>',
  special: true,
  single_word: false,
  lstrip: false,
  rstrip: false,
};
const json = (more: object = {}) =>
  Buffer.from(JSON.stringify({ ...FILE, added_tokens: [...FILE.added_tokens, own], ...more }));
const config = (more: object) =>
  Buffer.from(
    JSON.stringify({
      tokenizer_class: 'LlamaTokenizerFast',
      add_bos_token: true,
      bos_token: { content: '<begin>', lstrip: false },
      ...more,
    }),
  );
const idsOf = (file: Buffer) => new Tokenizer(file, { vocabSize: 320, maxInputBytes: 100 }).encode('hi');

it('a tokenizer of DeepSeek begins texts with the token that its settings name', () => {
  const plain = idsOf(json());
  expect(idsOf(withBeginToken(json(), config({}))!)).toEqual([BEGIN, ...plain]);
  expect(idsOf(withBeginToken(json(), config({ bos_token: '<begin>' }))!)).toEqual([BEGIN, ...plain]);
});

it.each<[string, object, object]>([
  ['settings that do not ask for it', { add_bos_token: false }, {}],
  ['settings of another class, for which transformers adds none', { tokenizer_class: 'Qwen2Tokenizer' }, {}],
  ['a token that the tokenizer does not have', { bos_token: '<other>' }, {}],
  ['a file that says itself what surrounds texts', {}, { post_processor: { type: 'TemplateProcessing' } }],
])('it stays as it is with %s', (_, settings, more) => {
  const file = json(more);
  expect(withBeginToken(file, config(settings))).toBe(file);
});
