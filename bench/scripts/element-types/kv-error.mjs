// What a KV cache in bf16 changes: a decoder-only model reads real text in windows, once with each type. Needs
// `npm run build:bench`.
//   node bench/scripts/element-types/kv-error.mjs [--model DIR] [--tokenizer FILE] [--text FILE] [--windows 16]
//     [--tokens 256] [--save NAME]
// All weights stay resident in their own types. Printed are the perplexity of both, the largest and the mean difference
// of a logit, and how often both have the same most likely token.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { preparePack } from '../../../dist/checkpoint/prepare-pack.js';
import { openEngine } from '../../../dist/inference/open-engine.js';
import { Tokenizer } from '../../../dist/text/tokenizer.js';
import { scriptProvenance } from '../../dist/support/provenance.js';
import { writeResult } from '../../dist/support/script-result.js';

const { values } = parseArgs({
  options: {
    model: { type: 'string', default: 'models/olmoe-mini' },
    tokenizer: { type: 'string' },
    text: { type: 'string', default: '../shared/data/wikitext2/test.txt' },
    windows: { type: 'string', default: '16' },
    tokens: { type: 'string', default: '256' },
    save: { type: 'string' },
  },
});
const [windows, length] = [Number(values.windows), Number(values.tokens)];

function windowsOf(vocabSize) {
  const file = values.tokenizer ?? join(values.model, 'tokenizer.json');
  const tokenizer = new Tokenizer(readFileSync(file), { vocabSize, maxInputBytes: 1 << 22 });
  const ids = tokenizer.encodePlain(readFileSync(values.text, 'utf8').slice(0, 20 * windows * length));
  if (ids.length < windows * length) throw new Error(`The text has ${ids.length} tokens`);
  return Array.from({ length: windows }, (_, i) => Int32Array.from(ids.slice(i * length, (i + 1) * length)));
}

function logitsOf(engine, tokens) {
  const { logits } = engine.runBatch(
    {
      stack: 0,
      sequences: Int32Array.of(1),
      offsets: Int32Array.of(0, tokens.length),
      tokens,
      logitRows: Int32Array.from(tokens.keys()),
    },
    null,
  );
  engine.releaseSequences(Int32Array.of(1));
  return logits;
}

const mostLikely = (row) => row.reduce((best, value, i) => (value > row[best] ? i : best), 0);

function surprise(row, token) {
  const top = row[mostLikely(row)];
  return Math.log(row.reduce((sum, value) => sum + Math.exp(value - top), 0)) + top - row[token];
}

const directory = mkdtempSync(join(tmpdir(), 'kv-error-'));
const { pack } = await preparePack({ model: values.model, packDir: directory, experts: 'auto' });
const limits = { maxBatchTokens: length, kvTokens: length, threads: availableParallelism() };
const options = { ...limits, pack, memoryBudget: '100%', hostBudget: '0' };
const engines = ['f32', 'bf16'].map((kv) => openEngine({ ...options, kv }));
const vocab = engines[0].shape.vocabSize;
const sums = { f32: 0, bf16: 0, difference: 0, same: 0, rows: 0 };
let largest = 0;
for (const tokens of windowsOf(vocab)) {
  const [exact, rounded] = engines.map((engine) => logitsOf(engine, tokens));
  for (let row = 0; row + 1 < length; row += 1) {
    const [a, b] = [exact, rounded].map((logits) => logits.subarray(row * vocab, (row + 1) * vocab));
    sums.f32 += surprise(a, tokens[row + 1]);
    sums.bf16 += surprise(b, tokens[row + 1]);
    sums.same += mostLikely(a) === mostLikely(b) ? 1 : 0;
    sums.rows += 1;
    for (let i = 0; i < vocab; i += 1) {
      const difference = Math.abs(a[i] - b[i]);
      sums.difference += difference;
      largest = Math.max(largest, difference);
    }
  }
}
const [wide, narrow] = engines.map(({ plan }) => plan.kvCache);
for (const engine of engines) engine.close();
rmSync(directory, { recursive: true });
const result = {
  tokens: sums.rows,
  perplexity: { f32: Math.exp(sums.f32 / sums.rows), bf16: Math.exp(sums.bf16 / sums.rows) },
  largestDifference: largest,
  meanDifference: sums.difference / (sums.rows * vocab),
  sameMostLikely: sums.same / sums.rows,
  kvBytes: { f32: wide, bf16: narrow },
};
console.log(JSON.stringify(result, null, 2));
if (values.save !== undefined) writeResult(values.save, { ...scriptProvenance(), ...result });
