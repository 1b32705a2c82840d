// Decoding runs on the thread that sends the engine's heartbeat, so its work must be in proportion to the ids.
import { expect, it } from 'vitest';
import { Detokenizer } from '../../../src/text/detokenizer.js';
import { readTokenizerFile } from '../../../src/text/tokenizing/tokenizer-file.js';
import { callsOf } from '../../support/counted-calls.js';

const WORDS = ['a', 'b', 'Ġc', 'Ã', '©', 'ш'];
const ADDED = 2_000;

/** Of bytes, with as many added tokens, every second of them special. */
function detokenizer(decoder: object): Detokenizer {
  const file = {
    added_tokens: Array.from({ length: ADDED }, (_, at) => ({
      id: WORDS.length + at,
      content: `<é ${at}>`,
      special: at % 2 === 0,
    })),
    decoder,
    model: { type: 'BPE', vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])), merges: [] },
  };
  return new Detokenizer(readTokenizerFile(Buffer.from(JSON.stringify(file))));
}

const BYTES = { type: 'ByteLevel' };
const ids = [0, 6, 2, 3, 4, 7, 5, 1, 9_999];

it('keeps added tokens as they are, and leaves out the special ones on request', () => {
  expect(detokenizer(BYTES).decode(ids, false)).toBe('a<é 0> cé<é 1>шb');
  expect(detokenizer(BYTES).decode(ids, true)).toBe('a cé<é 1>шb');
});

it.each([
  ['bytes', BYTES],
  ['bytes in a sequence', { type: 'Sequence', decoders: [BYTES] }],
])('searches no list for the tokens of %s', (_, decoder) => {
  const opened = detokenizer(decoder);
  const many = Array.from({ length: 20_000 }, (_each, at) => at % (WORDS.length + ADDED));
  const searches: [object, string][] = [
    [Array.prototype, 'find'],
    [Array.prototype, 'includes'],
    [Array.prototype, 'indexOf'],
    [Array.prototype, 'some'],
  ];
  for (const skipSpecial of [false, true]) {
    expect(callsOf(searches, () => void opened.decode(many, skipSpecial))).toBeLessThan(10);
  }
});
