// A tokenizer that is written from the metadata of a GGUF file gives the ids of the model's own tokenizer.json.
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Metadata } from '../../../../src/checkpoint/gguf/metadata.js';
import { PRE_TOKENIZERS } from '../../../../src/checkpoint/gguf/pre-tokenizers.js';
import { tokenizerTexts } from '../../../../src/checkpoint/gguf/tokenizer-texts.js';
import { TOKEN_TYPE } from '../../../../src/checkpoint/gguf/vocabulary.js';
import { SidaError } from '../../../../src/errors.js';
import type { GgufValue } from '../../../../src/native/addon-types.js';
import { Tokenizer } from '../../../../src/text/tokenizer.js';
import { metadataOf } from '../../../support/gguf-metadata.js';
import { sst2 } from '../../../support/server-process.js';

const root = new URL('../../../../', import.meta.url);
const { normal, unknown, control, userDefined, unused, byte } = TOKEN_TYPE;

function unpacked(path: string): Buffer {
  return brotliDecompressSync(readFileSync(new URL(`test/fixtures/tokenizers/${path}.br`, root)));
}

function casesOf(path: string): { text: string; ids: number[] }[] {
  return unpacked(path)
    .toString()
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

function textsOf(metadata: Record<string, GgufValue>) {
  return tokenizerTexts(new Metadata(metadata, 'model.gguf'));
}

function rebuilt(metadata: Record<string, GgufValue>, vocabSize = 1 << 20): Tokenizer {
  return new Tokenizer(textsOf(metadata).get('tokenizer.json')!, { vocabSize, maxInputBytes: 1 << 20 });
}

function opened(json: Buffer, vocabSize = 1 << 20): Tokenizer {
  return new Tokenizer(json, { vocabSize, maxInputBytes: 1 << 20 });
}

function types(...numbers: number[]): Int32Array {
  return Int32Array.from(numbers);
}

const UNITS = [
  `a·b·the ·film· ·  ·\n·\r\n·\t·1·23·2026·.·...·'s·'LL·-·"`,
  `ш·Ж·é·e\u0301·\u0301·ß·İ·漢·字·ｶﾞ·각·\u1100\u1161·٣٤·½·ﬁ·～`,
  `👨‍👩‍👧‍👦·🎬·\u0000·\u0001·\u0085·\u200d·\ufeff·\u3000·▁·Ġ·[PAD7]·<0x41>`,
  `<unk>·<s>·</s>·<pad>·<extra_id_0>·<|im_end|>·<|im_start|·<think>·</tool_call>`,
].flatMap((units) => units.split('·'));
const text = fc.oneof(
  fc.array(fc.constantFrom(...UNITS), { maxLength: 40 }).map((units) => units.join('')),
  fc
    .array(fc.tuple(fc.constantFrom(...UNITS), fc.integer({ min: 1, max: 20 })), { maxLength: 8 })
    .map((runs) => runs.map(([unit, count]) => unit.repeat(count)).join('')),
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc.string({ unit: fc.constantFrom(...'0123456789 .,aZ'), maxLength: 60 }),
);

const SENTENCES = sst2().slice(0, 200);

describe.each([
  ['Qwen3, byte-level BPE', 'qwen3', 151936, { 'tokenizer.ggml.pre': 'qwen2' }],
  [
    'T5, Unigram',
    't5',
    32128,
    {
      'tokenizer.ggml.add_space_prefix': true,
      'tokenizer.ggml.remove_extra_whitespaces': true,
      'tokenizer.ggml.eos_token_id': 1,
    },
  ],
] as const)('%s', (_, name, rows, more) => {
  const json = unpacked(`${name}/tokenizer.json`);
  const own = opened(json, rows);
  const file = JSON.parse(json.toString());
  const metadata = metadataOf(file, rows, more);
  const tokenizer = rebuilt(metadata, rows);

  it('has the ids of the recorded texts', () => {
    for (const { text, ids } of casesOf(`${name}/cases.jsonl`)) {
      expect(tokenizer.encode(text)).toEqual(ids);
      expect(tokenizer.decode(ids, true)).toBe(own.decode(ids, true));
    }
  });

  it('has the ids of tokenizer.json for other texts', () => {
    for (const { text: sample } of SENTENCES) expect(tokenizer.encode(sample)).toEqual(own.encode(sample));
    fc.assert(
      fc.property(text, fc.boolean(), (sample, special) => {
        const encode = (one: Tokenizer) => (special ? one.encode(sample) : one.encodePlain(sample));
        expect(encode(tokenizer)).toEqual(encode(own));
      }),
      { numRuns: 500 },
    );
  });

  it('decodes ids as tokenizer.json does, those of padded rows too', () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: rows - 1 }), { minLength: 1, maxLength: 20 }), (ids) => {
        expect(tokenizer.decode(ids, true)).toBe(own.decode(ids, true));
        expect(ids.map((id) => tokenizer.idToToken(id))).toEqual(ids.map((id) => own.idToToken(id)));
      }),
      { numRuns: 200 },
    );
  });
});

it('writes the pre-tokenizer and the normalizer of Qwen3 as its tokenizer.json has them', () => {
  const file = JSON.parse(unpacked('qwen3/tokenizer.json').toString());
  const metadata = metadataOf(file, 151936, { 'tokenizer.ggml.pre': 'qwen2' });
  const { normalizer, pre_tokenizer } = JSON.parse(textsOf(metadata).get('tokenizer.json')!.toString());
  expect({ normalizer, pre_tokenizer }).toEqual({
    normalizer: file.normalizer,
    pre_tokenizer: file.pre_tokenizer,
  });
});

/** The 256 byte tokens of a byte-level vocabulary, and `more` after them. */
function byteLevel(more: string[], merges: string[] = []): Record<string, GgufValue> {
  const plain = (one: number) => (one > 32 && one < 127) || (one > 160 && one < 173) || one > 173;
  let others = 256;
  const bytes = Array.from({ length: 256 }, (_, one) => String.fromCharCode(plain(one) ? one : others++));
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': 'gpt-2',
    'tokenizer.ggml.tokens': [...bytes, ...more],
    'tokenizer.ggml.merges': merges,
  };
}

describe('byte-level vocabularies', () => {
  it.each(PRE_TOKENIZERS)('encodes any text with the pre-tokenizer %s, and gives it back', (pre) => {
    const tokenizer = rebuilt({
      ...byteLevel(['<s>'], []),
      'tokenizer.ggml.pre': pre,
      'tokenizer.ggml.add_bos_token': false,
    });
    fc.assert(
      fc.property(text, (sample) => {
        const decoded = tokenizer.decode(tokenizer.encode(sample), false);
        expect(decoded.normalize('NFC')).toBe(sample.normalize('NFC'));
      }),
      { numRuns: 100 },
    );
  });

  it.each([
    ['gpt-2', '12345', ['12345']],
    ['smollm', '12345', ['1', '2', '3', '4', '5']],
    ['llama-bpe', '12345', ['123', '45']],
    ['qwen2', '12345', ['1', '2', '3', '4', '5']],
    ['deepseek-llm', '12345', ['1', '2', '3', '4', '5']],
    ['deepseek-v3', '12345', ['123', '45']],
    ['gpt-4o', '12345', ['123', '45']],
    ['tekken', '12345', ['1', '2', '3', '4', '5']],
    ['glm4', '12345', ['123', '45']],
    ['default', '12345', ['123', '45']],
  ])('%s cuts %s into %j', (pre, sample, words) => {
    const merges = ['1 2', '12 3', '123 4', '1234 5', '4 5'];
    const runs = merges.map((merge) => merge.replace(' ', ''));
    const tokenizer = rebuilt({
      ...byteLevel(runs, merges),
      'tokenizer.ggml.pre': pre,
      'tokenizer.ggml.add_bos_token': false,
    });
    expect(tokenizer.encode(sample).map((id) => tokenizer.idToToken(id))).toEqual(words);
  });

  it('keeps ids, types and texts of tokens', () => {
    const metadata = {
      ...byteLevel(['<s>', 'ab', '<think>', '[PAD259]', '__proto__', '<|end|>'], ['a b']),
      'tokenizer.ggml.token_type': types(
        ...Array(256).fill(normal),
        ...[control, normal, userDefined, unused, control, control],
      ),
      'tokenizer.ggml.bos_token_id': 256,
      'tokenizer.ggml.add_bos_token': true,
    };
    const tokenizer = rebuilt(metadata, 262);
    expect(tokenizer.encode('ab<think>__proto__')).toEqual([256, 257, 258, 260]);
    expect(tokenizer.decode([256, 257, 258, 261], true)).toBe('ab<think>');
    expect(tokenizer.decode([256, 257, 258, 261], false)).toBe('<s>ab<think><|end|>');
    expect([256, 257, 258, 259, 260].map((id) => tokenizer.idToToken(id))).toEqual([
      '<s>',
      'ab',
      '<think>',
      '<259>',
      '__proto__',
    ]);
    expect(tokenizer.encode('[PAD259]')).not.toContain(259);
  });

  it('gives a token with characters that stand for no byte its own text', () => {
    const tokenizer = rebuilt(byteLevel(['w1 ', 'w2 ']));
    expect(tokenizer.decode([256, 97, 257], false)).toBe('w1 aw2 ');
  });
});

describe('SentencePiece vocabularies', () => {
  const pieces = (more: Record<string, GgufValue>): Record<string, GgufValue> => ({
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', '<0xC3>', '<0xA9>', '▁', 'a', 'b', '▁a', 'ab', '▁ab'],
    'tokenizer.ggml.scores': Float32Array.from([0, 0, 0, 0, 0, -10, -11, -12, -2, -1, -3]),
    'tokenizer.ggml.token_type': types(unknown, control, control, byte, byte, ...Array(6).fill(normal)),
    ...more,
  });

  it('merges by score, and gives the bytes of unknown characters', () => {
    const tokenizer = rebuilt(pieces({}), 11);
    expect(tokenizer.encode('ab')).toEqual([1, 10]);
    expect(tokenizer.encode('abé a')).toEqual([1, 10, 3, 4, 8]);
    expect(tokenizer.encode('漢')).toEqual([1, 5, 0]);
    expect(tokenizer.decode([1, 10, 3, 4, 8], true)).toBe('abé a');
  });

  it('takes the token of type unknown where the file does not name one', () => {
    const other = { 'tokenizer.ggml.token_type': types(...Array(10).fill(normal), unknown) };
    expect(rebuilt(pieces(other)).encodePlain('漢')).toEqual([5, 10]);
    expect(rebuilt(pieces({ ...other, 'tokenizer.ggml.unknown_token_id': 7 })).encodePlain('漢')).toEqual([
      5, 7,
    ]);
  });

  it('takes ids of -1 as not there', () => {
    const none = { 'tokenizer.ggml.unknown_token_id': -1, 'tokenizer.ggml.padding_token_id': 0xffff_ffff };
    expect(rebuilt(pieces(none), 11).encode('ab')).toEqual([1, 10]);
  });

  it('adds a space and special tokens as the file says', () => {
    expect(rebuilt(pieces({ 'tokenizer.ggml.add_space_prefix': false })).encode('ab')).toEqual([1, 9]);
    const flags = { 'tokenizer.ggml.add_bos_token': false, 'tokenizer.ggml.add_eos_token': true };
    expect(rebuilt(pieces(flags)).encode('ab')).toEqual([10, 2]);
    expect(rebuilt(pieces(flags)).encodePlain('ab')).toEqual([10]);
  });

  it('removes spaces as the file says', () => {
    expect(rebuilt(pieces({})).encodePlain(' a  a ')).toEqual([5, 8, 5, 8, 5]);
    const removing = { 'tokenizer.ggml.remove_extra_whitespaces': true };
    expect(rebuilt(pieces(removing)).encodePlain('  a  a ')).toEqual([8, 8]);
    expect(rebuilt(pieces(removing)).encodePlain('   ')).toEqual([]);
    const bare = { ...removing, 'tokenizer.ggml.add_space_prefix': false };
    expect(rebuilt(pieces(bare)).encodePlain('  a  a ')).toEqual([6, 8]);
  });
});

describe("Gemma 4's vocabulary", () => {
  const tokens = [
    '<pad>',
    '<eos>',
    '<bos>',
    '<unk>',
    '<0xC3>',
    '<0xA9>',
    '▁',
    'a',
    'b',
    '\n',
    '▁a',
    'ab',
    '▁ab',
    '\n\n',
  ];
  const gemma: Record<string, GgufValue> = {
    'tokenizer.ggml.model': 'gemma4',
    'tokenizer.ggml.tokens': tokens,
    'tokenizer.ggml.scores': new Float32Array(tokens.length).fill(-1000),
    'tokenizer.ggml.token_type': types(...Array(4).fill(control), byte, byte, ...Array(8).fill(normal)),
    'tokenizer.ggml.merges': ['▁ a', 'a b', '▁a b', '\n \n'],
    'tokenizer.ggml.bos_token_id': 2,
    'tokenizer.ggml.eos_token_id': 1,
    'tokenizer.ggml.unknown_token_id': 3,
    'tokenizer.ggml.add_bos_token': true,
    'tokenizer.ggml.add_space_prefix': false,
  };

  it('merges by the list, keeps spaces and newlines, and gives the bytes of unknown characters', () => {
    const tokenizer = rebuilt(gemma, tokens.length);
    expect(tokenizer.encode('ab')).toEqual([2, 11]);
    expect(tokenizer.encodePlain(' ab  a')).toEqual([12, 6, 10]);
    expect(tokenizer.encodePlain('a\n\n\nb<eos>')).toEqual([7, 13, 9, 8, 1]);
    expect(tokenizer.encodePlain('é漢')).toEqual([4, 5, 3]);
    expect(tokenizer.decode([2, 12, 4, 5, 6], true)).toBe(' abé ');
  });

  it('needs the list of merges', () => {
    const { 'tokenizer.ggml.merges': _, ...without } = gemma;
    expect(() => textsOf(without)).toThrow(/tokenizer\.ggml\.merges: missing/);
  });
});

it('writes chat templates, the default one as a file', () => {
  const texts = textsOf({
    ...byteLevel(['<s>']),
    'tokenizer.ggml.bos_token_id': 256,
    'tokenizer.chat_template': '{{ messages }}',
    'tokenizer.chat_template.tool_use': '{{ tools }}',
    'tokenizer.chat_templates': ['tool_use'],
  });
  expect(texts.get('chat_template.jinja')!.toString()).toBe('{{ messages }}');
  expect(JSON.parse(texts.get('tokenizer_config.json')!.toString())).toEqual({
    add_bos_token: false,
    add_eos_token: false,
    bos_token: '<s>',
    chat_template: [
      { name: 'default', template: '{{ messages }}' },
      { name: 'tool_use', template: '{{ tools }}' },
    ],
  });
});

it('writes no tokenizer for a file without one', () => {
  expect(textsOf({}).size).toBe(0);
  expect(textsOf({ 'tokenizer.ggml.model': 'no_vocab' }).size).toBe(0);
});

describe('refuses', () => {
  const llama = {
    'tokenizer.ggml.model': 'llama',
    'tokenizer.ggml.tokens': ['<unk>', 'a'],
    'tokenizer.ggml.scores': Float32Array.of(0, -1),
  };
  it.each<[what: string, metadata: Record<string, GgufValue>, message: RegExp]>([
    [
      'another model',
      { 'tokenizer.ggml.model': 'rwkv' },
      /tokenizer\.ggml\.model: expected one of gpt2, llama, gemma4, t5, found "rwkv"/,
    ],
    [
      'another pre-tokenizer',
      { ...byteLevel([]), 'tokenizer.ggml.pre': 'nope' },
      /\.pre: expected one of default, .*qwen2.*, found "nope"/,
    ],
    ['no tokens', { 'tokenizer.ggml.model': 'gpt2' }, /\.tokens: expected tokens, found none/],
    [
      'tokens that are no texts',
      { ...llama, 'tokenizer.ggml.tokens': types(1, 2) },
      /\.tokens: expected a list of texts, found a list of 2/,
    ],
    [
      'a token twice',
      { ...llama, 'tokenizer.ggml.tokens': ['a', 'a'] },
      /tokens 0 and 1 \("a"\) have the same text/,
    ],
    [
      'too few types',
      { ...llama, 'tokenizer.ggml.token_type': types(1) },
      /\.token_type: expected 2 values, one for each token, found 1/,
    ],
    [
      'a type that there is not',
      { ...llama, 'tokenizer.ggml.token_type': types(1, 9) },
      /token 1 has type 9, expected 0 to 6/,
    ],
    [
      'too many scores',
      { ...llama, 'tokenizer.ggml.scores': Float32Array.of(0, 1, 2) },
      /\.scores: expected 2 values, one for each token, found 3/,
    ],
    [
      'a score that is no number',
      { ...llama, 'tokenizer.ggml.scores': Float32Array.of(0, Number.NaN) },
      /token 1 has the score NaN/,
    ],
    [
      'no scores',
      {
        'tokenizer.ggml.model': 't5',
        'tokenizer.ggml.tokens': ['<unk>', 'a'],
        'tokenizer.ggml.unknown_token_id': 0,
      },
      /\.scores: missing/,
    ],
    [
      'a byte-level token that is no UTF-8',
      { ...byteLevel([]), 'tokenizer.ggml.tokens': ['a', Uint8Array.of(0xff)] },
      /token 1 is no UTF-8, expected characters that stand for bytes/,
    ],
    [
      'an id beyond the tokens',
      { ...llama, 'tokenizer.ggml.eos_token_id': 2 },
      /\.eos_token_id: expected an id below 2, found 2/,
    ],
    ['a merge of one text', byteLevel([], ['ab']), /\.merges: merge 0 \("ab"\): expected two texts/],
    ['a merge without its token', byteLevel([], ['a b']), /\.merges: merge 0 \("a b"\): "ab" is no token/],
    [
      'a bos token that is not there',
      { ...byteLevel([]), 'tokenizer.ggml.add_bos_token': true },
      /\.bos_token_id: missing, though texts begin with the token/,
    ],
    [
      'a byte token with another name',
      { ...llama, 'tokenizer.ggml.token_type': types(2, 6) },
      /expected <0x00> to <0xFF> of type byte, found token 1 \("a"\)/,
    ],
    [
      'a long token of a vocabulary with scores',
      {
        'tokenizer.ggml.model': 'llama',
        'tokenizer.ggml.tokens': ['<unk>', '<s>', '</s>', 'a'.repeat(600)],
        'tokenizer.ggml.scores': Float32Array.of(0, 0, 0, -1),
      },
      /token 3 \(.*\) has 600 characters, expected at most 512/,
    ],
    [
      'tokens that can be merged in too many ways',
      {
        'tokenizer.ggml.model': 'llama',
        'tokenizer.ggml.tokens': [
          '<unk>',
          '<s>',
          '</s>',
          ...Array.from({ length: 512 }, (_, i) => 'a'.repeat(i + 1)),
        ],
        'tokenizer.ggml.scores': new Float32Array(515),
      },
      /merged in too many ways: merges of \d{8} characters/,
    ],
  ])('%s', (_, metadata, message) => {
    let error: unknown;
    try {
      textsOf(metadata);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(SidaError);
    expect((error as SidaError).code).toBe('checkpoint_invalid');
    expect((error as SidaError).message).toMatch(message);
    expect((error as SidaError).message).toMatch(/^model\.gguf: /);
  });
});
