import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SidaError } from '../../../src/errors.js';
import { IncrementalDecoder } from '../../../src/text/incremental-decoder.js';
import { Tokenizer } from '../../../src/text/tokenizer.js';

const root = new URL('../../../', import.meta.url);
const miniJson = readFileSync(new URL('models/switch-mini/tokenizer.json', root));
const mini = new Tokenizer(miniJson, { vocabSize: 8000, maxInputBytes: 1 << 20 });

/** A tokenizer of test/fixtures, and its cases as lines of JSON. */
function fixture(name: string): { json: Buffer; lines: string[] } {
  const unpacked = (file: string) =>
    brotliDecompressSync(readFileSync(new URL(`test/fixtures/tokenizers/${name}/${file}.br`, root)));
  const lines = unpacked('cases.jsonl').toString().split('\n').filter(Boolean);
  return { json: unpacked('tokenizer.json'), lines };
}

function thrown(run: () => unknown): SidaError {
  try {
    run();
  } catch (error) {
    if (error instanceof SidaError) return error;
  }
  throw new Error('expected a SidaError');
}

describe('the bundled tokenizer', () => {
  it.each([
    ['hello world', [1733, 53, 205, 1], 'hello world'],
    ['', [1], ''],
    ['POSITIVE', [1500, 1], 'positive'],
    ['not equivalent', [51, 3466, 1], 'not equivalent'],
  ])('encodes %j', (text, ids, decoded) => {
    expect(mini.encode(text)).toEqual(ids);
    expect(mini.decode(ids, true)).toBe(decoded);
  });

  it('leaves out the special tokens on request', () => {
    expect(mini.encodePlain('hello world')).toEqual([1733, 53, 205]);
    expect(mini.decode([1500, 1], false)).toBe('positive</s>');
  });

  it('decodes an empty list to an empty text', () => {
    expect(mini.decode([], true)).toBe('');
  });

  it('names every id, also one outside of the vocabulary', () => {
    expect(mini.idToToken(1)).toBe('</s>');
    expect(mini.idToToken(1500)).toBe('▁positive');
    expect(mini.idToToken(8100)).toBe('<8100>');
  });

  it('encodes any text, including lone surrogates and control characters', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        const ids = mini.encode(text);
        expect(ids.at(-1)).toBe(1);
        expect(ids.every((id) => id >= 0 && id < 8000)).toBe(true);
      }),
      { numRuns: 200 },
    );
    expect(mini.encode('\ud800 a \udfff').at(-1)).toBe(1);
  });
});

describe('limits', () => {
  it('refuses a text above the byte limit with both numbers', () => {
    const small = new Tokenizer(miniJson, { vocabSize: 8000, maxInputBytes: 10 });
    expect(small.encode('0123456789').length).toBeGreaterThan(1);
    const error = thrown(() => small.encode('012345678é'));
    expect(error.code).toBe('request_too_large');
    expect(error.details).toEqual({ bytes: 11, limit: 10 });
  });

  interface Edited {
    added_tokens: object[];
    post_processor: unknown;
    decoder: unknown;
    normalizer: unknown;
    model: { vocab: object[] };
  }
  it.each<[string, (tokenizer: Edited) => void, string | RegExp]>([
    [
      'an id of two tokens',
      (t) => t.added_tokens.push({ id: 5, content: '<x>' }),
      'the id 5 to two tokens, "s" and "<x>"',
    ],
    ['an id below 0', (t) => t.added_tokens.push({ id: -1, content: '<x>' }), 'added_tokens.103.id'],
    [
      'an id that is no number',
      (t) => t.added_tokens.push({ id: true, content: '<x>' }),
      'added_tokens.103.id',
    ],
    [
      'a step that fails at work',
      (t) => Object.assign(t.post_processor as object, { single: [null] }),
      'cannot be used',
    ],
    [
      'an added token of many bytes',
      (t) => t.added_tokens.push({ id: 7999, content: 'é'.repeat(513) }),
      'token 7999 has 1026 bytes, the limit is 1024',
    ],
    [
      'an added token that would be searched letter by letter',
      (t) => t.added_tokens.push({ id: 7999, content: 'a'.repeat(20_000) }),
      'token 7999 has 20000 bytes, the limit is 1024',
    ],
    [
      'a token of the vocabulary of many bytes',
      (t) => Object.assign(t.model.vocab[7000]!, ['x'.repeat(4_000_000)]),
      'token 7000 has 4000000 bytes, the limit is 1024',
    ],
    [
      'a decoder that lengthens texts',
      (t) => {
        const lengthens = { type: 'Replace', pattern: { String: '' }, content: 'x'.repeat(1_000_000) };
        t.decoder = { type: 'Sequence', decoders: [t.decoder, lengthens] };
      },
      'its decoder replaces a text by a longer one',
    ],
    [
      'a decoder that doubles texts again and again',
      (t) => {
        const doubles = { type: 'Metaspace', replacement: '' };
        t.decoder = { type: 'Sequence', decoders: Array(8).fill(doubles) };
      },
      /its decoder makes \d+ characters of token \d+, twice/,
    ],
    [
      'a normalizer that lengthens texts',
      (t) => {
        t.normalizer = { type: 'Replace', pattern: { String: 'q' }, content: 'x'.repeat(2_000) };
      },
      /its normalizer makes \d+ characters of the \d+ of token \d+/,
    ],
  ])('refuses %s', (_, harm, message) => {
    const tokenizer = JSON.parse(miniJson.toString());
    harm(tokenizer);
    const { code, message: told } = thrown(
      () => new Tokenizer(Buffer.from(JSON.stringify(tokenizer)), { vocabSize: 8000, maxInputBytes: 10 }),
    );
    expect(code).toBe('checkpoint_invalid');
    expect(told).toMatch(message);
    expect(told).not.toContain('\n');
  });

  it('refuses a vocabulary beyond the embedding', () => {
    const error = thrown(() => new Tokenizer(miniJson, { vocabSize: 7999, maxInputBytes: 10 }));
    expect(error.code).toBe('checkpoint_invalid');
    expect(error.details).toMatchObject({ id: 7999, vocab_size: 7999 });
  });

  it.each(['', 'null', '{}', '[1]', '{"model":{"type":"Nothing"}}'])(
    'refuses %j as tokenizer.json',
    (json) => {
      expect(thrown(() => new Tokenizer(Buffer.from(json), { vocabSize: 10, maxInputBytes: 10 })).code).toBe(
        'checkpoint_invalid',
      );
    },
  );
});

describe('incremental decoding', () => {
  function pieces(tokenizer: Tokenizer, ids: number[]): string {
    const decoder = new IncrementalDecoder((window) => tokenizer.decode(window, true));
    return ids.map((id) => decoder.push(id)).join('') + decoder.finish();
  }

  it('returns deltas that add up to the decoded text, for any ids', () => {
    const id = fc.oneof(fc.nat(7999), fc.constantFrom(0, 1, 2, 3, 7900));
    fc.assert(
      fc.property(fc.array(id, { maxLength: 40 }), (ids) => {
        expect(pieces(mini, ids)).toBe(mini.decode(ids, true));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    ['special tokens', [1]],
    ['spaces that are stripped', [3]],
    ['words among special tokens', [1733, ...new Array(30).fill(1)]],
    ['words among spaces and special tokens', [53, 3, 3, 3, ...new Array(40).fill(1), 3, 205]],
    ['tokens that are no characters', [2]],
  ])('takes as long for a token however many came before it: %s', (_name, some) => {
    let most = 0;
    const decoder = new IncrementalDecoder((window) => {
      most = Math.max(most, window.length);
      return mini.decode(window, true);
    });
    const ids = Array.from({ length: 1_000 }, (_, at) => some[at % some.length]!);
    const text = ids.map((id) => decoder.push(id)).join('') + decoder.finish();
    expect(text).toBe(mini.decode(ids, true));
    expect(most).toBeLessThan(64);
  });

  it('returns deltas that add up to the decoded text where few tokens have one', () => {
    const id = fc.oneof({ weight: 8, arbitrary: fc.constantFrom(0, 1, 2, 3) }, fc.nat(7999));
    fc.assert(
      fc.property(fc.array(id, { minLength: 20, maxLength: 120 }), (ids) => {
        expect(pieces(mini, ids)).toBe(mini.decode(ids, true));
      }),
      { numRuns: 200 },
    );
  });

  it('returns the space of a first token that follows another one', () => {
    const ids = mini.encode('the acting, all of it').slice(0, -1);
    for (let at = 1; at < ids.length; at += 1) {
      const decoder = new IncrementalDecoder((window) => mini.decode(window, true), ids[at - 1]);
      const text =
        ids
          .slice(at)
          .map((id) => decoder.push(id))
          .join('') + decoder.finish();
      expect(mini.decode(ids.slice(0, at), true) + text).toBe(mini.decode(ids, true));
    }
  });

  it('returns each word with its own token', () => {
    const decoder = new IncrementalDecoder((window) => mini.decode(window, true));
    const ids = mini.encode('the acting, all of it');
    expect(ids.map((id) => decoder.push(id)).filter((piece) => piece !== '')).toContain(' all');
  });

  it('holds back a character whose bytes are not complete', () => {
    const bytes = [0xe2, 0x82, 0xac];
    const decoder = new IncrementalDecoder((ids) =>
      Buffer.from(ids.map((id) => bytes[id]!)).toString('utf8'),
    );
    expect([decoder.push(0), decoder.push(1), decoder.push(2)]).toEqual(['', '', '€']);
  });

  it('returns an incomplete character at the end', () => {
    const decoder = new IncrementalDecoder(() => '\ufffd');
    expect(decoder.push(0)).toBe('');
    expect(decoder.finish()).toBe('\ufffd');
  });
});

describe('the T5 tokenizer', () => {
  it('agrees with the reference on ids and text of 307 cases', () => {
    const { json, lines } = fixture('t5');
    const tokenizer = new Tokenizer(json, { vocabSize: 32128, maxInputBytes: 1 << 20 });
    expect(lines).toHaveLength(307);
    for (const line of lines) {
      const { text, ids, decoded } = JSON.parse(line) as { text: string; ids: number[]; decoded: string };
      expect(tokenizer.encode(text), line).toEqual(ids);
      expect(tokenizer.decode(ids, true), line).toBe(decoded);
      const decoder = new IncrementalDecoder((window) => tokenizer.decode(window, true));
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.finish(), line).toBe(decoded);
    }
  });
});

describe('a byte-level tokenizer', () => {
  const { json, lines } = fixture('qwen3');
  const tokenizer = () => new Tokenizer(json, { vocabSize: 151_936, maxInputBytes: 1 << 20 });

  it('agrees with the reference on ids and text, and decodes incrementally', () => {
    const library = tokenizer();
    expect(lines.length).toBeGreaterThan(100);
    for (const line of lines) {
      const {
        text,
        ids,
        decoded_skip_special: decoded,
      } = JSON.parse(line) as {
        text: string;
        ids: number[];
        decoded_skip_special: string;
      };
      expect(library.encode(text), line).toEqual(ids);
      const decoder = new IncrementalDecoder((window) => library.decode(window, true));
      expect(ids.map((id) => decoder.push(id)).join('') + decoder.finish(), line).toBe(decoded);
    }
  });

  it('returns a character as a whole when its bytes span several tokens', () => {
    const library = tokenizer();
    const decoder = new IncrementalDecoder((window) => library.decode(window, true));
    const ids = library.encode('\u{1f9ff}\u{1d6a5}');
    expect(ids.length).toBeGreaterThan(2);
    const pieces = ids.map((id) => decoder.push(id)).filter((piece) => piece !== '');
    expect(pieces.join('')).toBe('\u{1f9ff}\u{1d6a5}');
    expect(pieces.some((piece) => piece.includes('\ufffd'))).toBe(false);
  });
});
