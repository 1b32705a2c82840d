/** The texts of SST-2's validation set as bundled, and tokenizers of models. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { BUNDLED_SST2 } from './paths.js';

export function sst2Texts(limit = Number.POSITIVE_INFINITY): string[] {
  const lines = readFileSync(BUNDLED_SST2, 'utf8').trim().split('\n').slice(0, limit);
  return lines.map((line) => (JSON.parse(line) as { text: string }).text);
}

/** The tokenizer of a checkpoint or pack. */
export function tokenizerOf(directory: string, vocabSize = 1 << 30): Tokenizer {
  return new Tokenizer(readFileSync(join(directory, 'tokenizer.json')), {
    vocabSize,
    maxInputBytes: 1 << 24,
  });
}
