/** SST-2's validation set as bundled: texts, and their tokens by the tokenizer of switch-mini. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { BUNDLED_SST2, MINI_DIRECTORY } from './paths.js';

export function sst2Texts(limit = Number.POSITIVE_INFINITY): string[] {
  const lines = readFileSync(BUNDLED_SST2, 'utf8').trim().split('\n').slice(0, limit);
  return lines.map((line) => (JSON.parse(line) as { text: string }).text);
}

export function sst2Tokens(limit?: number, template = '{text}'): Int32Array[] {
  const tokenizer = new Tokenizer(readFileSync(join(MINI_DIRECTORY, 'tokenizer.json')), {
    vocabSize: 8000,
    maxInputBytes: 1 << 20,
  });
  return sst2Texts(limit).map((text) => Int32Array.from(tokenizer.encode(template.replace('{text}', text))));
}
