// Options of tokenizer.json, with the ids and texts that the Rust library gives.
import { expect } from 'vitest';
import { Tokenizer } from '../../../src/text/tokenizer.js';
import { casesOf, testCases } from '../../support/cases.js';

interface TokenizerCase {
  id: string;
  tokenizer: object;
  text?: string;
  ids?: number[];
  right: number[] | string;
}

testCases(
  'tokenizers',
  casesOf<TokenizerCase>('peers/tokenizers.jsonl'),
  ({ tokenizer, text, ids, right }) => {
    const opened = new Tokenizer(Buffer.from(JSON.stringify(tokenizer)), {
      vocabSize: 1000,
      maxInputBytes: 1 << 20,
    });
    expect(text === undefined ? opened.decode(ids!, false) : opened.encode(text)).toEqual(right);
  },
);
