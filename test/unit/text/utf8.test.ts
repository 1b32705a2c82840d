import fc from 'fast-check';
import { expect, it } from 'vitest';
import { decodeUtf8 } from '../../../src/text/utf8.js';

it.each(['', 'a', '\ufeffa', 'é', 'ш', '\u0000', '\ud83d\ude00', '\uffff', '\u{10ffff}'])(
  'decodes %j',
  (text) => {
    expect(decodeUtf8(Buffer.from(text))).toBe(text);
  },
);

it('gives what the standard decoder gives', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      const bytes = Buffer.from(text);
      expect(decodeUtf8(bytes)).toBe(bytes.toString('utf8'));
    }),
  );
});
