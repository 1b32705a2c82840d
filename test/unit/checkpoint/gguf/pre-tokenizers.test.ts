// Pre-tokenizers that a GGUF file may name cut texts into the words of Hugging Face's tokenizers (words.json.br), and
// give them the ids of llama.cpp (llama-ids.json.br).
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { Metadata } from '../../../../src/checkpoint/gguf/metadata.js';
import { tokenizerTexts } from '../../../../src/checkpoint/gguf/tokenizer-texts.js';
import { Tokenizer } from '../../../../src/text/tokenizer.js';
import { openLibrary } from '../../../../src/text/tokenizing/library.js';
import { readTokenizerFile } from '../../../../src/text/tokenizing/tokenizer-file.js';

interface Style {
  normalizer: object | null;
  pre_tokenizer: object;
  words: string[][];
}

function fixture<T>(name: string): T {
  const packed = readFileSync(new URL(`../../../fixtures/tokenizers/gguf/${name}`, import.meta.url));
  return JSON.parse(brotliDecompressSync(packed).toString()) as T;
}

const { texts, styles } = fixture<{ texts: string[]; styles: Record<string, Style> }>('words.json.br');

describe.each(Object.entries(styles))('%s', (name, { normalizer, pre_tokenizer, words }) => {
  const metadata = {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': name,
    'tokenizer.ggml.tokens': ['<s>'],
    'tokenizer.ggml.bos_token_id': 0,
    'tokenizer.ggml.merges': [],
  };
  const json = tokenizerTexts(new Metadata(metadata, 'model.gguf')).get('tokenizer.json')!;

  it('is written as the models have it', () => {
    expect(JSON.parse(json.toString())).toMatchObject({ normalizer, pre_tokenizer });
  });

  it('cuts texts into the same words', () => {
    const library = openLibrary(readTokenizerFile(json));
    const normalize = library.normalizer as unknown as ((text: string) => string) | null;
    const cut = library.pre_tokenizer as unknown as (text: string) => string[];
    for (const [at, text] of texts.entries()) {
      expect(cut(normalize?.(text) ?? text), JSON.stringify(text)).toEqual(words[at]);
    }
  });
});

interface LlamaIds {
  tokens: string[];
  merges: string[];
  texts: string[];
  groups: { names: string[]; ids: number[][] }[];
}

const llama = fixture<LlamaIds>('llama-ids.json.br');

describe.each(llama.groups.flatMap(({ names, ids }) => names.map((name) => ({ name, ids }))))(
  '$name',
  ({ name, ids }) => {
    it('gives texts the ids of llama.cpp', () => {
      const { tokens, merges } = llama;
      const metadata = {
        'tokenizer.ggml.model': 'gpt2',
        'tokenizer.ggml.pre': name,
        'tokenizer.ggml.tokens': tokens,
        'tokenizer.ggml.token_type': Int32Array.from(tokens, (_, id) => (id === tokens.length - 1 ? 3 : 1)),
        'tokenizer.ggml.bos_token_id': tokens.length - 1,
        'tokenizer.ggml.merges': merges,
      };
      const json = tokenizerTexts(new Metadata(metadata, 'model.gguf')).get('tokenizer.json')!;
      const tokenizer = new Tokenizer(readTokenizerFile(json), {
        vocabSize: tokens.length,
        maxInputBytes: 65_536,
      });
      for (const [at, text] of llama.texts.entries())
        expect(tokenizer.encodePlain(text), JSON.stringify(text)).toEqual(ids[at]);
    });
  },
);
