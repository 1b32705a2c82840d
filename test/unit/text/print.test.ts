import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { writeLines } from '../../../src/text/print.js';
import { visible, visibleJson } from '../../../src/text/visible.js';

const SRC = join(import.meta.dirname, '../../../src');
/** Characters of every kind that is escaped: C0, DEL, C1, bidi, a line separator, a tag, half a pair. */
const ODD = '\u001b]0;x\u0007\r\n\u007f\u009b31m\u202e\u2028\u{e0041}\ud800';
// biome-ignore lint/suspicious/noControlCharactersInRegex: those must not be there
const BARE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2028\u2029\u{e0041}]/u;

describe('what is printed', () => {
  it('has one line for each line, whatever is in it', () => {
    const out = new PassThrough();
    writeLines(out, `name ${ODD}`, 'b');
    const text = String(out.read());
    expect(text.split('\n')).toEqual([
      expect.stringMatching(/^name \\u001b\]0;x\\u0007\\u000d\\u000a/),
      'b',
      '',
    ]);
    expect(text).not.toMatch(BARE);
  });

  it('keeps the letters of every language', () => {
    const text = 'Käse naïve 你好 🎬 ❤️ 1️⃣ ▁der שָׁל֑וֹם ཧྐྵྨླྺྼྻྂ ที่นี่ e\u0302\u0301';
    expect(visible(text)).toBe(text);
    expect(visible('C:\\users "a\\n"')).toBe('C:\\users "a\\n"');
  });

  it.each([
    ['a blank of Braille', 'a\u2800b', 'a\\u2800b'],
    ['fillers and joiners that show nothing', 'a\u3164\u115f\u034fb', 'a\\u3164\\u115f\\u034fb'],
    ['a variation selector after a letter', 'a\ufe0f\ufe01', 'a\\ufe0f\\ufe01'],
    ['a character beyond the first plane', '\u{e0041}1', '\\u{e0041}1'],
    ['more marks than any letter has', `a${'\u0301'.repeat(10)}b`, `a${'\u0301'.repeat(8)}\\u0301\\u0301b`],
  ])('shows %s', (_, text, shown) => {
    expect(visible(text)).toBe(shown);
    expect(JSON.parse(visibleJson(JSON.stringify(text)))).toBe(text);
  });

  it('is the same value when it is JSON, without bare control characters', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.string({ unit: 'binary' }), (value, text) => {
        const json = visibleJson(JSON.stringify([value, text, ODD], null, 2));
        expect(json).not.toMatch(BARE);
        expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify([value, text, ODD])));
      }),
    );
  });
});

it('only the door and the end of a process write to standard output and standard error', () => {
  const writes = /process\.std(out|err)\.write|console\.\w+\(|writeSync\((1|2)\b/;
  const found = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.startsWith('page/'))
    .filter((name) => writes.test(readFileSync(join(SRC, name), 'utf8')));
  expect(found.sort()).toEqual(['cli/exit.ts', 'text/print.ts']);
});
