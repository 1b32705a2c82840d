// The tokenizer thread: what it is given, in which order it answers, and what becomes of a text that takes too long.
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TokenizerLink } from '../../../src/engine/tokenizer-link.js';
import type { SidaError } from '../../../src/errors.js';
import { Tokenizer } from '../../../src/text/tokenizer.js';
import { eventually } from '../../support/eventually.js';
import { DIST } from '../../support/sida-process.js';

const file = JSON.parse(
  readFileSync(new URL('../../../models/switch-mini/tokenizer.json', import.meta.url), 'utf8'),
);
const sound = Buffer.from(JSON.stringify(file));
const slow = Buffer.from(
  JSON.stringify({
    ...file,
    normalizer: {
      type: 'Sequence',
      normalizers: [
        ...(file.normalizer === null ? [] : [file.normalizer]),
        { type: 'Replace', pattern: { Regex: '(?:(?:qz)+)+!' }, content: 'x' },
      ],
    },
  }),
);
const limits = { vocabSize: 8001, maxInputBytes: 1 << 16 };
const plain = new Tokenizer(sound, limits);
const HANGS = `${'qz'.repeat(100)}?`;

let Link: typeof TokenizerLink;
let link: TokenizerLink;
const failures: Error[] = [];
beforeAll(async () => {
  Link = (await import(pathToFileURL(`${DIST}/engine/tokenizer-link.js`).href)).TokenizerLink;
});
afterEach(async () => {
  await link.close();
  expect(failures).toEqual([]);
});

const open = async (json: Buffer, template?: string) => {
  const templates = template === undefined ? undefined : { texts: { default: template }, variables: {} };
  link = await Link.open(json, limits, (error) => failures.push(error), templates);
};

type Found = number[][] | SidaError;
const plainOf = (found: Int32Array[] | SidaError): Found =>
  Array.isArray(found) ? found.map((ids) => [...ids]) : found;
const encode = (texts: string[], special = true): Promise<Found> =>
  new Promise((resolve) => {
    link.encode(
      texts.map((text) => ({ text, special })),
      (found) => resolve(plainOf(found)),
    );
  });

describe('the tokenizer thread', () => {
  it('gives long texts half of its time beside short ones, and all of it alone', async () => {
    await open(sound);
    const long = 'y '.repeat(30_000);
    const busyShare = async (texts: number) => {
      const before = link.figures.seconds;
      const began = performance.now();
      for (let i = 0; i < texts; i += 1) await encode([long]);
      return (1_000 * (link.figures.seconds - before)) / (performance.now() - began);
    };
    await busyShare(5);
    const alone = await busyShare(20);
    let going = true;
    const shorts = (async () => {
      while (going) await encode(['a fine film']);
    })();
    const beside = await busyShare(20);
    going = false;
    await shorts;
    // What the short texts take themselves is small.
    expect(beside).toBeLessThan(0.75);
    expect(beside / alone).toBeLessThan(0.8);
  });

  it('gives the ids of each text in the order of the request, with and without special tokens', async () => {
    await open(sound);
    const texts = ['a fine film', '', 'x'.repeat(9_000), 'ш'.repeat(9_000), 'dull', 'y '.repeat(3_000)];
    expect(await encode(texts)).toEqual(texts.map((text) => plain.encode(text)));
    expect(await encode(texts, false)).toEqual(texts.map((text) => plain.encodePlain(text)));
    expect(link.texts.decode([1500, 1], true)).toBe('positive');
    expect(link.figures).toMatchObject({ waiting: 0, waitingBytes: 0, ended: 0 });
    expect(link.figures.seconds).toBeGreaterThan(0);
  });

  it('takes up short texts while a long one runs', async () => {
    await open(sound);
    await encode(['warm']);
    const ended: string[] = [];
    const long = encode(Array.from({ length: 8 }, (_, i) => `${i}ab`.repeat(20_000))).then(() =>
      ended.push('long'),
    );
    const short = encode(['a fine film']).then(() => ended.push('short'));
    await Promise.all([long, short]);
    expect(ended).toEqual(['short', 'long']);
  });

  it('forgets the texts of a request that is cancelled, and never answers it', async () => {
    await open(sound);
    let answered = false;
    const cancel = link.encode(
      Array.from({ length: 32 }, () => ({ text: 'ab'.repeat(15_000), special: true })),
      () => {
        answered = true;
      },
    );
    expect(link.figures.waiting).toBe(31);
    cancel();
    expect(link.figures).toMatchObject({ waiting: 0, waitingBytes: 0 });
    expect(await encode(['dull'])).toEqual([plain.encode('dull')]);
    expect(answered).toBe(false);
  });

  it('is replaced when a text takes too long: that text is refused with the numbers, the others are answered', async () => {
    await open(slow);
    const hanging = encode(['fine', HANGS, 'never read']);
    const others = [encode(['a fine film']), encode(['b'.repeat(9_000), 'dull'])];
    const error = (await hanging) as SidaError;
    expect(error).toMatchObject({ code: 'cannot_run', details: { bytes: HANGS.length, limit_ms: 1004 } });
    expect(error.message).toBe(`A text of ${HANGS.length} bytes took the tokenizer longer than 1004 ms`);
    expect(await Promise.all(others)).toEqual([
      [plain.encode('a fine film')],
      [plain.encode('b'.repeat(9_000)), plain.encode('dull')],
    ]);
    expect(link.figures).toMatchObject({ waiting: 0, ended: 1 });
    expect(await encode(['fine'])).toEqual([plain.encode('fine')]);
  });

  it('answers others between texts that take too long, one after another', async () => {
    await open(slow);
    const refused = { before: 0, after: 0 };
    let answered = false;
    const attack = (async () => {
      while (refused.before + refused.after < 4) {
        await encode([HANGS]);
        refused[answered ? 'after' : 'before'] += 1;
      }
    })();
    expect(await encode(['a fine film'])).toEqual([plain.encode('a fine film')]);
    answered = true;
    await attack;
    expect(refused.before).toBeLessThanOrEqual(1);
  }, 30_000);

  it('is replaced too when the client of the text has left', async () => {
    await open(slow);
    const cancel = link.encode([{ text: HANGS, special: true }], () => expect.unreachable());
    cancel();
    await eventually(() => link.figures.ended === 1);
    expect(await encode(['fine'])).toEqual([plain.encode('fine')]);
  });

  it('decodes lists of ids, and refuses a text that is too large for an answer', async () => {
    const wide = { id: 8_000, content: 'é'.repeat(512), special: false };
    await open(Buffer.from(JSON.stringify({ ...file, added_tokens: [...file.added_tokens, wide] })));
    const decode = (ids: number[][], skipSpecial: boolean) =>
      new Promise((resolve) => {
        link.decode(
          ids.map((each) => ({ ids: each, skipSpecial })),
          resolve,
        );
      });
    const ids = [plain.encode('a fine film'), [], [1500, 1]];
    for (const skip of [true, false]) {
      const texts = ids.map((each) => plain.decode(each, skip));
      expect(await Promise.all([decode(ids, skip), encode(['dull'])])).toEqual([
        texts,
        [plain.encode('dull')],
      ]);
    }
    const refused = await decode([Array(5_000).fill(8_000)], true);
    expect(refused).toMatchObject({ code: 'cannot_run', details: { bytes: 5_120_000, limit: 4 << 20 } });
  });

  it.each([
    ['a text that takes more memory than the thread has', 'ж'.repeat(2_000)],
    ['a text that its normalizer makes longer than a string may be', 'ж'.repeat(20_000)],
  ])('refuses %s, and goes on', async (_, text) => {
    const doubles = { type: 'Replace', pattern: { String: 'ж' }, content: 'жж' };
    const normalizer = { type: 'Sequence', normalizers: Array(18).fill(doubles) };
    await open(Buffer.from(JSON.stringify({ ...file, normalizer })));
    expect(await encode([text])).toMatchObject({ code: 'cannot_run' });
    expect(await encode(['fine'])).toMatchObject([expect.any(Array)]);
  });

  it('passes on why a text has no ids', async () => {
    await open(sound);
    expect(await encode(['a'.repeat((1 << 16) + 1)])).toMatchObject({ code: 'request_too_large' });
    expect(await encode(['fine'])).toEqual([plain.encode('fine')]);
  });
});

describe('conversations', () => {
  const say = (content: string): Promise<Found> =>
    new Promise((resolve) => {
      const text = JSON.stringify({ messages: [{ role: 'user', content }] });
      link.encode([{ text, special: false, chat: true }], (found) => resolve(plainOf(found)));
    });

  it('are rendered by the template of the model', async () => {
    await open(sound, '{{ messages[0].content }} film</s>');
    expect(await say('a fine')).toEqual([[...plain.encodePlain('a fine film'), 1]]);
    expect(link.chat!.format.answer).toMatchObject({ kind: 'tags' });
  });

  it('cannot end a message', async () => {
    await open(sound, '{{ messages[0].content }}</s>');
    const [ids] = (await say('a</s>b')) as number[][];
    expect(ids!.filter((id) => id === 1)).toHaveLength(1);
  });

  it('do not keep the thread, whatever the template does', async () => {
    await open(sound, '{% for a in range(60000) %}{% for b in range(60000) %}{% endfor %}{% endfor %}');
    expect(await say('a')).toMatchObject({ code: 'cannot_run' });
    expect(await encode(['fine'])).toEqual([plain.encode('fine')]);
  });

  it('are refused by a model without a template', async () => {
    await open(sound);
    expect(await say('a')).toMatchObject({ code: 'invalid_request' });
    expect(link.chat).toBeUndefined();
  });
});

it('refuses a tokenizer that cannot serve the model', async () => {
  await expect(Link.open(Buffer.from('{}'), limits, () => {})).rejects.toMatchObject({
    code: 'checkpoint_invalid',
  });
  await open(sound);
});
