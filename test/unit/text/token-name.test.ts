// How completions name the tokens of their log-probabilities.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bytesOfName, shownToken, tokenName } from '../../../src/text/token-name.js';
import { Tokenizer } from '../../../src/text/tokenizer.js';

function open(model: string): Tokenizer {
  const json = readFileSync(new URL(`../../../models/${model}/tokenizer.json`, import.meta.url));
  return new Tokenizer(json, { vocabSize: 9000, maxInputBytes: 1000 });
}

describe('the name of a token', () => {
  const byteLevel = open('olmoe-mini');
  const name = tokenName(byteLevel);

  it('is its text, of byte-level vocabularies and of T5', () => {
    const text = 'a fine film, in the café';
    const ids = byteLevel.encodePlain(text);
    expect(ids.map((id) => byteLevel.idToToken(id)).some((piece) => piece.includes('Ġ'))).toBe(true);
    expect(ids.map(name).join('').trim()).toBe(text);
    const t5 = open('switch-mini');
    const own = t5.encodePlain('the acting is fine');
    expect(own.map(tokenName(t5)).join('')).toBe(' the acting is fine');
  });

  it('is the bytes of a token that is no whole character', () => {
    const ids = byteLevel.encodePlain('\u{1f600}');
    expect(ids.length).toBeGreaterThan(1);
    const bytes = ids.map(name).map((own) => /^bytes:((\\x[0-9a-f]{2})+)$/.exec(own)![1]);
    expect(bytes.join('')).toBe('\\xf0\\x9f\\x98\\x80');
  });

  it('tells the bytes of any token, whose names are texts in chats', () => {
    const text = 'a café \u{1f600}';
    const ids = byteLevel.encodePlain(text);
    const names = ids.map(shownToken(byteLevel));
    expect(Buffer.from(names.flatMap((own) => bytesOfName(own)!)).toString()).toBe(text);
    expect(bytesOfName('bytes: \\xe2')).toEqual([32, 0xe2]);
    expect(bytesOfName('bytes: a')).toEqual([...Buffer.from('bytes: a')]);
    expect(bytesOfName('\ufffd')).toBe(null);
  });

  it('tells bytes apart that have no text, and keeps printable ones beside them', () => {
    const pieces = ['<0xE2>', '<0x80>', 'Ġâ', '\\â', 'ï¿½', ''];
    const named = tokenName({
      decode: ([id]) => (pieces[id!] === '' ? '' : '\ufffd'),
      idToToken: (id) => pieces[id] || `<${id}>`,
    });
    expect(pieces.map((_, id) => named(id))).toEqual([
      'bytes:\\xe2',
      'bytes:\\x80',
      'bytes: \\xe2',
      'bytes:\\x5c\\xe2',
      '\ufffd',
      '<5>',
    ]);
  });
});
