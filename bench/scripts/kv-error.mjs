// What does a narrow KV cache change? A decoder-only model reads texts once with each type, all experts in memory. The
// table compares the logits of every token with those of f32.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { preparePack } from '../../dist/checkpoint/prepare-pack.js';
import { openEngine } from '../../dist/inference/open-engine.js';
import { KV_TYPES } from '../../dist/native/engine-types.js';
import { Tokenizer } from '../../dist/text/tokenizer.js';
import { scriptOptions } from '../dist/support/script.js';

const HELP = `node bench/scripts/kv-error.mjs [--model models/olmoe-mini] [--data FILE.jsonl] [--windows 8]
  [--tokens 256]
Heads of the model must have a multiple of 32 columns.`;

const { model, data, ...counts } = scriptOptions(HELP, {
  model: 'models/olmoe-mini',
  data: 'test/data/sst2-validation.jsonl',
  windows: '8',
  tokens: '256',
});
const [windows, length] = [Number(counts.windows), Number(counts.tokens)];
const directory = mkdtempSync(join(tmpdir(), 'sida-kv-error-'));

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

function logprob(row, token) {
  const top = row[mostLikely(row)];
  return row[token] - top - Math.log(row.reduce((sum, value) => sum + Math.exp(value - top), 0));
}

try {
  const { pack } = await preparePack({ model, packDir: directory, experts: 'auto' });
  const limits = { maxBatchTokens: length, kvTokens: length, threads: availableParallelism() };
  const open = (kv) => openEngine({ ...limits, pack, memoryBudget: '100%', hostBudget: '0', kv });
  const engines = Object.fromEntries(KV_TYPES.map((kv) => [kv, open(kv)]));
  const vocab = engines.f32.shape.vocabSize;
  const json = readFileSync(join(model, 'tokenizer.json'));
  const tokenizer = new Tokenizer(json, { vocabSize: vocab, maxInputBytes: 1 << 24 });
  const lines = readFileSync(data, 'utf8').trim().split('\n');
  const text = lines.map((line) => JSON.parse(line).text).join('\n');
  const ids = Int32Array.from(tokenizer.encodePlain(text));
  const found = KV_TYPES.map((kv) => ({
    kv,
    bytes: engines[kv].plan.kvCache,
    same: 0,
    logprob: 0,
    far: 0,
  }));
  let rows = 0;
  for (let begin = 0; begin + length <= Math.min(ids.length, windows * length); begin += length) {
    const tokens = ids.slice(begin, begin + length);
    const exact = logitsOf(engines.f32, tokens);
    for (const of of found) {
      const logits = logitsOf(engines[of.kv], tokens);
      for (let row = 0; row + 1 < length; row += 1) {
        const [a, b] = [exact, logits].map((all) => all.subarray(row * vocab, (row + 1) * vocab));
        of.same += mostLikely(a) === mostLikely(b) ? 1 : 0;
        const difference = Math.abs(logprob(a, tokens[row + 1]) - logprob(b, tokens[row + 1]));
        of.logprob += difference;
        of.far = Math.max(of.far, difference);
      }
    }
    rows += length - 1;
  }
  console.log(`${rows} tokens\n| \`--kv\` | bytes | same most likely token | log-probability, mean | most |`);
  console.log('|---|---|---|---|---|');
  for (const { kv, bytes, same, logprob: sum, far } of found) {
    const cells = [
      kv,
      bytes,
      `${((100 * same) / rows).toFixed(2)} %`,
      (sum / rows).toFixed(4),
      far.toFixed(2),
    ];
    console.log(`| ${cells.join(' | ')} |`);
  }
  for (const engine of Object.values(engines)) engine.close();
} finally {
  rmSync(directory, { recursive: true, force: true });
}
