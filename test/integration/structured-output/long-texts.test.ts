// Bounds of long texts, with a vocabulary of 150,000 tokens.
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Matcher } from '../../../src/structured-output/matchers.js';
import { Detokenizer } from '../../../src/text/detokenizer.js';
import { readTokenizerFile } from '../../../src/text/tokenizing/tokenizer-file.js';
import { allows, type GrammarRun, grammarRun, maskOf, randomNumbers } from '../../support/grammar-run.js';

const file = new URL('../../fixtures/tokenizers/qwen3/tokenizer.json.br', import.meta.url);
const json = brotliDecompressSync(readFileSync(file));
const END = 151_645;
const data = { vocabSize: 151_936, endTokens: [END] };
const texts = new Detokenizer(readTokenizerFile(json));
const textOf = (ids: number[]) => texts.decode(ids, false);
const own = Array.from({ length: data.vocabSize }, (_, id) => textOf([id]));
const hasMark = own.map((text) => text.includes('"'));
const short = [...own.keys()].filter((id) => own[id]!.length < 3);
const all = [...own.keys()];

let run: GrammarRun;

beforeAll(async () => {
  run = await grammarRun({ tokenizer: JSON.parse(json.toString()) as object, data });
});

afterAll(() => run.threads.close());

const open = (schema: object) => run.open({ kind: 'json', schema: JSON.stringify(schema), closed: true });

/** The first allowed id from a random place on, of those that fit if there are any. Lists take too long. */
function pick(mask: Uint32Array, random: () => number, fits: (id: number) => boolean, ids = all): number {
  const from = Math.floor(random() * ids.length);
  let other: number | undefined;
  for (let tried = 0; tried < ids.length; tried += 1) {
    const id = ids[(from + tried) % ids.length]!;
    if (!allows(mask, id)) continue;
    if (fits(id)) return id;
    other ??= id;
  }
  return other!;
}

/** Tokens that one allows and the other does not. */
const differing = (one: Uint32Array, other: Uint32Array) =>
  one.every((bits, at) => bits === other[at])
    ? []
    : all.filter((id) => allows(one, id) !== allows(other, id)).slice(0, 3);

/** Draws tokens, and such with a quotation mark only where `ends`. Returns the value. */
function drawn(matcher: Matcher, random: () => number, ends: (text: string) => boolean): unknown {
  const ids: number[] = [];
  for (let text = ''; ; text += own[ids.at(-1)!]) {
    const mask = maskOf(matcher);
    if (allows(mask, END)) return JSON.parse(textOf(ids));
    const marks = text === '' || ends(text);
    const id = pick(mask, random, (each) => hasMark[each] === marks);
    matcher.take(id);
    ids.push(id);
  }
}

it('a text has as many characters as it may, whatever tokens are drawn', async () => {
  const text = drawn(await open({ type: 'string', maxLength: 2_000 }), randomNumbers(1), () => false);
  expect([...String(text)].length).toBe(2_000);
}, 120_000);

it('allows the tokens of the same bounds without a second grammar', async () => {
  // A pattern is one grammar with a place for each number of characters.
  for (const [least, most] of [
    [0, 40],
    [30, 45],
  ]) {
    const long = await open({ type: 'string', minLength: least, maxLength: most });
    const pattern = await open({ type: 'string', pattern: `^[^]{${least},${most}}$` });
    const random = randomNumbers(5);
    for (;;) {
      const mask = maskOf(long);
      expect(differing(mask, maskOf(pattern))).toEqual([]);
      if (allows(mask, END)) break;
      const marked = random() < 0.05;
      const id = pick(mask, random, (each) => hasMark[each] === marked);
      for (const matcher of [long, pattern]) matcher.take(id);
    }
  }
}, 120_000);

it('bounds texts within objects, each by its own length', async () => {
  const text = (maxLength: number, minLength = 0) => ({ type: 'string', minLength, maxLength });
  const kind = (name: string, most: number) => ({
    type: 'object',
    properties: { kind: { const: name }, t: text(most, most - 1) },
    required: ['kind', 't'],
  });
  const schema = {
    type: 'object',
    properties: {
      a: text(200, 150),
      b: { anyOf: [text(60), { type: 'null' }] },
      c: { oneOf: [kind('x', 70), kind('y', 300)] },
    },
    required: ['a', 'b', 'c'],
  };
  for (const seed of [3, 4]) {
    const value = drawn(await open(schema), randomNumbers(seed), (begun) =>
      /[{:,] ?$|"$|[a-z]"/.test(begun.slice(-2)),
    );
    const { a, b, c } = value as { a: string; b: string | null; c: { kind: string; t: string } };
    expect([...a].length).toBeGreaterThanOrEqual(150);
    expect([...a].length).toBeLessThanOrEqual(200);
    expect([...(b ?? '')].length).toBeLessThanOrEqual(60);
    const most = c.kind === 'x' ? 70 : 300;
    expect([most - 1, most]).toContain([...c.t].length);
  }
}, 120_000);

it('allows the same tokens where objects of a choice begin alike', async () => {
  const choice = (text: (most: number) => object) => {
    const one = (b: object, most: number, more: object) => ({
      type: 'object',
      properties: { a: text(most), b, ...more },
      required: ['a', 'b', ...Object.keys(more)],
    });
    const any = { type: 'string' };
    return {
      anyOf: [one({ const: 'yes' }, 26, { c: text(9) }), one(any, 40, {}), one({ type: 'null' }, 30, {})],
    };
  };
  const lengths = new Set<number>();
  for (const seed of [1, 2, 3, 4]) {
    const random = randomNumbers(seed);
    const long = await open(choice((maxLength) => ({ type: 'string', maxLength })));
    const pattern = await open(choice((most) => ({ type: 'string', pattern: `^[^]{0,${most}}$` })));
    const ids: number[] = [];
    for (let length = 0; ; length += 1) {
      const mask = maskOf(long);
      expect(differing(mask, maskOf(pattern))).toEqual([]);
      if (allows(mask, END) || length > 60) break;
      const marked = random() < 0.07;
      ids.push(pick(mask, random, (id) => hasMark[id] === marked, short));
      for (const matcher of [long, pattern]) matcher.take(ids.at(-1)!);
    }
    lengths.add(/^\{"a": "(.*?)", "b/s.exec(textOf(ids))?.[1]?.length ?? -1);
  }
  expect(lengths.size).toBeGreaterThan(2);
}, 120_000);

it('counts a link beside its pattern', async () => {
  const matcher = await open({ type: 'string', format: 'uri', minLength: 1, maxLength: 2_083 });
  const text = drawn(matcher, randomNumbers(3), (begun) => begun.length > 2_050);
  expect(String(text)).toMatch(/^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/]/);
  expect(String(text).length).toBeLessThanOrEqual(2_083);
  expect(String(text).length).toBeGreaterThan(1_900);
}, 120_000);
