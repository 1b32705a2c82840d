// The words of each pre-tokenizer that a GGUF file may name are those of Hugging Face's tokenizers (words.json.br).
import { readFileSync } from 'node:fs';
import { brotliDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { Metadata } from '../../../../src/checkpoint/gguf/metadata.js';
import { tokenizerTexts } from '../../../../src/checkpoint/gguf/tokenizer-texts.js';
import { openLibrary } from '../../../../src/text/tokenizing/library.js';
import { readTokenizerFile } from '../../../../src/text/tokenizing/tokenizer-file.js';

interface Style {
  normalizer: object | null;
  pre_tokenizer: object;
  words: string[][];
}

const packed = readFileSync(new URL('../../../fixtures/tokenizers/gguf/words.json.br', import.meta.url));
const { texts, styles }: { texts: string[]; styles: Record<string, Style> } = JSON.parse(
  brotliDecompressSync(packed).toString(),
);

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
