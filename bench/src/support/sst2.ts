/** The texts of SST-2's validation set as bundled. */
import { readFileSync } from 'node:fs';
import { BUNDLED_SST2 } from './paths.js';

export function sst2Texts(limit = Number.POSITIVE_INFINITY): string[] {
  const lines = readFileSync(BUNDLED_SST2, 'utf8').trim().split('\n').slice(0, limit);
  return lines.map((line) => (JSON.parse(line) as { text: string }).text);
}
